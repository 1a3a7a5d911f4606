"""The ledger as people read it: newest first, one entry with the proof that it stands there, and verifying everything."""

from typing import Any

import msgspec

from standfast.canon import parse
from standfast.errors import NotFound
from standfast.limits import CONSOLE_PAGE_ITEMS, SAFE_INTEGER
from standfast.server.console.visit import Page, Visit
from standfast.server.operations import governance_operations
from standfast.server.operations.schemas import LedgerEntry, LedgerPage, PageQuery, encode_cursor
from standfast.vocabulary import Value


class AskedLedger(Value, frozen=True, kw_only=True):
    """Behind which entry the page begins."""

    after: int | None = None


class AskedEntry(Value, frozen=True, kw_only=True):
    """Which entry to show."""

    seq: int


def ledger(visit: Visit) -> Page:
    """A page of entries, by default the newest."""
    return Page(template="ledger.html", facts={**_entries(visit), "verified": None})


def verify(visit: Visit) -> Page:
    """Walk everything, and tell what was found. Those who may not read the ledger may still know whether it holds."""
    verified = governance_operations.verify(visit.gateway, visit.caller)
    entries = _entries(visit) if visit.oversees else {"entries": None}
    return Page(template="ledger.html", facts={**entries, "verified": verified})


def _entries(visit: Visit) -> dict[str, Any]:
    if not visit.oversees:
        return {"entries": None}
    after = visit.asked(AskedLedger).after
    page = _newest(visit) if after is None else _page(visit, max(0, after))
    first = page.entries[0].seq if page.entries else 1
    last = page.entries[-1].seq if page.entries else 0
    return {
        "entries": [_line(entry) for entry in reversed(page.entries)],
        "older": max(0, first - 1 - CONSOLE_PAGE_ITEMS) if first > 1 else None,
        "newer": last if page.next is not None else None,
    }


def _page(visit: Visit, after: int) -> LedgerPage:
    asked = PageQuery(limit=CONSOLE_PAGE_ITEMS, cursor=encode_cursor(min(after, SAFE_INTEGER)))
    return governance_operations.ledger(visit.gateway, visit.caller, asked)


def _newest(visit: Visit) -> LedgerPage:
    """The last page. The last commit says about where it is; facts that belong to no commit may stand behind it."""
    store = visit.enter_house().store
    head = store.head()
    page = _page(visit, max(0, store.commit_of(head).ledger_seq - CONSOLE_PAGE_ITEMS) if head else 0)
    while page.next is not None:
        page = _page(visit, page.entries[-1].seq)
    if 0 < len(page.entries) < CONSOLE_PAGE_ITEMS:
        page = _page(visit, max(0, page.entries[-1].seq - CONSOLE_PAGE_ITEMS))
    return page


def _line(entry: LedgerEntry) -> dict[str, Any]:
    told = parse(entry.content)
    return {
        "seq": entry.seq,
        "hash": entry.hash,
        "kind": told["kind"],
        "at": told["at"],
        "about": _about(told["kind"], told["body"]),
    }


def _about(kind: str, body: dict[str, Any]) -> str:
    """An entry in a few words. Entries of kinds that nobody foresaw have none, and can be opened all the same."""
    told = body.get("told")
    match kind, told:
        case "commit", _:
            return f"snapshot {body.get('memory_snapshot_id')}, run {body.get('run_id')}"
        case "erasure", _:
            return f"{body.get('key')}: {body.get('reason')}"
        case "audit", {"writes": list(writes)}:
            return f"{len(writes)} judged"
        case "key", {"event": event, "name": name, "role": role}:
            return f"{event}: {name}, {role}"
        case "access", {"refused": {"door": door, "act": act, "code": code}}:
            return f"{door}, {act}: {code}"
        case "access", {"refused_too": list(groups)}:
            return f"{sum(group.get('times', 0) for group in groups)} more refused"
        case "decision", {"approval": {"principal": who, "statement": {"decision": decision}}}:
            return f"{decision} by {who}"
        case "spending", {"band": band, "used_bytes": used, "max_bytes": most}:
            return f"{band}: {used} of {most} bytes"
        case "retention", {"swept": list(swept)}:
            return f"{len(swept)} moved or deleted"
        case _:
            return ""


def entry(visit: Visit) -> Page:
    """One entry with its receipt."""
    seq = visit.asked(AskedEntry).seq
    receipt = governance_operations.receipt(visit.gateway, visit.caller, _existing(visit, seq))
    facts = {"seq": seq, "receipt": receipt, "told": parse(receipt.entry)}
    return Page(template="entry.html", facts=facts)


def receipt_file(visit: Visit) -> Page:
    """The receipt as a file, which proves the entry to whoever has the log's public key."""
    seq = visit.asked(AskedEntry).seq
    receipt = governance_operations.receipt(visit.gateway, visit.caller, _existing(visit, seq))
    text = msgspec.json.format(msgspec.json.encode(receipt), indent=2).decode() + "\n"
    return Page(facts={"text": text}, file_name=f"receipt-{seq}.json")


def _existing(visit: Visit, seq: int) -> int:
    if not 0 < seq <= SAFE_INTEGER or next(iter(visit.gateway.store.entries(seq - 1)), None) is None:
        raise NotFound(what=f"ledger entry {seq}")
    return seq
