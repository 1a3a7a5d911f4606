"""Commit plan: how the judged records of a run become one commit.

    incidents are counted and become patterns        777_FORGE
    band budgets decide what is kept                 band_budgets.py
    everything becomes rows, then writes, one commit 999_SEAL

Only ``plan_commit`` and ``only_budgets_changed`` read the store. Nothing here writes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from standfast.canon import CanonicalPart, canonical_bytes
from standfast.errors import InvalidValue, NotGoverned
from standfast.govern.admission import JudgedRecord
from standfast.govern.authority import Role, require_write
from standfast.govern.evidence import canonical_check, content_fingerprint
from standfast.govern.patterns import (
    Incident,
    detect_patterns,
    earlier_counts,
    refused_key,
    refused_row,
    said_key,
    said_row,
)
from standfast.limits import FACT_PAGE_WRITES, MAX_COMMIT_WRITES
from standfast.memory.band_budgets import BandBudgets
from standfast.scopes import prefix_of
from standfast.store.commit import Commit, Fact, Write
from standfast.store.packing import borrowed_by
from standfast.store.records import STREAM
from standfast.store.store import Store
from standfast.vocabulary import ActionType, Band, Record, RunIdentity

# Rows under these prefixes are only ever added. If one exists already, the commit must conflict and not replace it.
_OTHER_FIELDS: Final = tuple(name for name in Record.__struct_fields__ if name != "band")
_APPEND_ONLY: Final = (STREAM, prefix_of(Band.PHOENIX), prefix_of("mark"))


def plan_commit(
    judged: Sequence[JudgedRecord],
    forgotten: Mapping[str, str],
    *,
    run: RunIdentity,
    namespace: str,
    store: Store,
    budgets: BandBudgets,
    extra_writes: Sequence[Write] = (),
) -> Commit | None:
    """Plan the commit of a run as of its snapshot. Returns None if nothing changes.

    Budgets are spent by this: the caller holds ``budgets.lock`` and then calls ``budgets.committed`` or ``budgets.discarded``.

    Args:
        forgotten: Keys whose content is erased, each with the reason. They end, or get the new content.
        extra_writes: Rows of the caller's own, written in the same transaction if there is a commit.
    """
    at = run.memory_snapshot_id
    allowed = [one for one in judged if one.decision.allowed]
    incidents = incidents_in(allowed)
    counts = earlier_counts(store, namespace, at, (incident for incident, _ in incidents))
    patterns = detect_patterns([incident for incident, _ in incidents], counts)
    spending = budgets.spend(store, namespace, at, [r for one in allowed for r in one.placed], forgotten)
    rows: dict[str, dict[str, Any] | bytes] = {
        **spending.rows,
        **_contents_of(spending.records),
        **governance_rows(allowed, patterns, incidents),
    }
    expired = [*spending.expired, *(key for one in allowed for key in one.superseded if key not in rows)]
    keys = {key for key in rows if not key.startswith(_APPEND_ONLY)} | {*forgotten, *expired}
    present = {key: row.fingerprint for key, row in store.read(namespace, sorted(keys), at=at).items()}
    writes = writes_of(namespace, rows, present, forgotten=forgotten, expired=dict.fromkeys(expired))
    if not writes:
        return None
    if len(writes) + len(extra_writes) > MAX_COMMIT_WRITES:
        problem = (
            f"its {len(judged):,} buffered records need {len(writes):,} rows, and one commit holds {MAX_COMMIT_WRITES:,}; "
            "discard it and remember in several runs"
        )
        raise InvalidValue(what=f"run {run.run_id}", problem=problem)
    return Commit.of(
        run_id=run.run_id,
        memory_snapshot_id=at,
        policy_set_id=run.policy_set_id,
        writes=[*writes, *extra_writes],
        facts=[*audit_facts(allowed), *spending.facts],
    )


def _contents_of(records: Iterable[Record]) -> dict[str, bytes]:
    """The contents of records by key. A record that is in two bands is written as canonical bytes once."""
    contents: dict[str, bytes] = {}
    # Most records of a commit share most floor checks, which are the same objects then.
    checks: dict[int, CanonicalPart] = {}
    base: tuple[Record, bytes] | None = None
    for record in records:
        content = None
        if base is not None and record.band is Band.ACTIVE and _differ_only_in_band(record, base[0]):
            content = borrowed_by(base[1])
        if content is None:
            content = _content_of(record, checks)
        if record.band is Band.LEDGER:
            base = record, content
        contents[record.key] = content
    return contents


def _content_of(record: Record, checks: dict[int, CanonicalPart]) -> bytes:
    """The canonical bytes of a record. ``checks`` holds the parts for floor checks by their identity, and is filled."""
    evidence = record.evidence
    if evidence is None:
        return canonical_bytes(record.as_json())
    parts = []
    for check in evidence.floor_checks:
        if (part := checks.get(id(check))) is None:
            part = checks[id(check)] = canonical_check(check)
        parts.append(part)
    plain = msgspec.structs.replace(record, evidence=None).as_json()
    plain["evidence"] = {
        "floor_checks": parts,
        "verdict": evidence.verdict.value,
        "timestamp": evidence.timestamp,
        "hash": evidence.hash,
    }
    return canonical_bytes(plain)


def _differ_only_in_band(one: Record, other: Record) -> bool:
    """Whether they are copies of each other. Their fields are the same objects then."""
    return all(getattr(one, name) is getattr(other, name) for name in _OTHER_FIELDS)


def rows_needed(one: JudgedRecord, budgeted: Collection[Band]) -> int:
    """The most rows that a judged record takes in a commit: in its bands, in the streams of their budgets, and notes about it."""
    in_bands = sum(2 if record.band in budgeted else 1 for record in one.placed)
    return in_bands + 2 * len(one.incidents) + len(one.superseded) + 4


def incidents_in(judged: Iterable[JudgedRecord]) -> list[tuple[Incident, str]]:
    """Return the incidents of these judgements, each with the id of the record that caused it."""
    return [(incident, one.logged.memory_id) for one in judged for incident in one.incidents]


def governance_rows(
    judged: Iterable[JudgedRecord], patterns: Iterable[Record], incidents: Iterable[tuple[Incident, str]]
) -> dict[str, dict[str, Any]]:
    """Return the rows other than the records: proposals, notes of what was said or refused, patterns, incidents.

    Raises:
        NotGoverned: A record was not judged, or was changed after it was judged.
    """
    rows: dict[str, dict[str, Any]] = {}
    for one in judged:
        _require_governed(one)
        if one.proposal is not None:
            key = f"{Band.PHOENIX}/{one.proposal.proposal_id}"
            rows[key] = {"proposal": one.proposal.as_json(), "record": one.record.as_json()}
        if one.is_accepted and one.placed and one.reading:
            rows[said_key(one.record.scope, one.reading, one.record.memory_id)] = said_row()
        if one.witness is not None:
            require_write(Role.FORGE, one.witness.band)
            rows[one.witness.key] = one.witness.as_json()
        if one.refused_reading is not None:
            rows[refused_key(one.record.scope, one.refused_reading)] = refused_row(one.refused_reading)
    for pattern in patterns:
        require_write(Role.FORGE, pattern.band)
        rows[pattern.key] = pattern.as_json()
    for incident, memory_id in incidents:
        rows[incident.key(memory_id)] = incident.row
    return rows


def _require_governed(one: JudgedRecord) -> None:
    if not one.decision.allowed or not one.is_bound:
        raise NotGoverned(memory_id=one.record.memory_id, problem=one.decision.reason)
    for record in one.placed:
        require_write(Role.JUDGE, record.band)


def writes_of(
    namespace: str,
    rows: Mapping[str, dict[str, Any] | bytes],
    present: Mapping[str, str | None],
    *,
    forgotten: Mapping[str, str],
    expired: Iterable[str],
) -> list[Write]:
    """Return the writes that bring a snapshot to these rows.

    A row that is present with equal content needs no write; with other content it gets a new version (MERGE).

    Args:
        rows: What is to be there: plain JSON, or its canonical bytes.
        present: The fingerprints of what the snapshot shows under the keys that may be replaced.
        forgotten: Keys to erase, with the reason.
        expired: Keys that budgets expire.
    """
    writes = []
    for key, row in rows.items():
        erases = forgotten.get(key)
        content = row if isinstance(row, bytes) else canonical_bytes(row)
        write = Write.of_content(namespace, key, ActionType.WRITE, content, erases=erases)
        if key not in present:
            writes.append(write)
        elif present[key] != write.fingerprint or erases is not None:
            writes.append(msgspec.structs.replace(write, action=ActionType.MERGE))
    writes += [
        Write.of(namespace, key, ActionType.EXPIRE, erases=reason)
        for key, reason in forgotten.items()
        if key not in rows
    ]
    writes += [
        Write.of(namespace, key, ActionType.EXPIRE)
        for key in expired
        if key in present and key not in forgotten
    ]
    return writes


def audit_facts(judged: Sequence[JudgedRecord]) -> list[Fact]:
    """Return what the ledger records of these judgements, in the document's form, in pages."""
    entries = [entry for one in judged for entry in _audit_entries_of_rows(one)]
    entries += [
        _audit_entry(one, Band.PHOENIX, one.proposal.proposal_id, one.proposal.payload_fingerprint)
        for one in judged
        if one.proposal is not None
    ]
    pages = [entries[start : start + FACT_PAGE_WRITES] for start in range(0, len(entries), FACT_PAGE_WRITES)]
    return [Fact.of("audit", {"writes": page}) for page in pages]


def _audit_entries_of_rows(one: JudgedRecord) -> Iterator[dict[str, Any]]:
    for record in one.placed:
        yield _audit_entry(one, record.band, record.memory_id, one.content_hash)
    if (witness := one.witness) is not None:
        yield _audit_entry(one, witness.band, witness.memory_id, content_fingerprint(witness))


def _audit_entry(one: JudgedRecord, band: Band, entry_id: str, entry_hash: str) -> dict[str, Any]:
    evidence = (one.witness or one.record).evidence
    return {
        "band": band.value,
        "entry_hash": entry_hash,
        "entry_id": entry_id,
        "evidence_hash": evidence.hash if evidence else None,
        "reasons": list(one.judgement.reasons),
        "verdict": one.verdict.value,
        "writer_id": (Role.FORGE if band is Band.WITNESS else Role.JUDGE).value,
    }


def only_budgets_changed(
    commit: Commit, *, base: int, head: int, namespace: str, store: Store, budgets: BandBudgets
) -> bool:
    """Whether a commit was aborted only because other runs spent the same budgets, so that it can be planned again.

    Rows of budgeted bands do not count, because the policy decides about them anew; rows that the run erases do.
    """
    if not budgets.budgets or head == base:
        return False
    spent = tuple(
        prefix
        for band in budgets.budgets
        for prefix in (prefix_of(band), f"budget/{band}", f"{STREAM}{band}/")
    )
    keys = [write.key for write in commit.writes if write.erases or not write.key.startswith(spent)]
    before, after = (store.read(namespace, keys, at=at) for at in (base, head))
    return {key: row.fingerprint for key, row in before.items()} == {
        key: row.fingerprint for key, row in after.items()
    }
