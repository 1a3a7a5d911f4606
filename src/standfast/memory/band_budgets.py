"""Byte budgets of bands: what a commit may keep, decided by the band's policy, and what goes for it.

Beside a budgeted band stand its stream, ``stream/BAND/…``, and ``budget/BAND``: which policy spends how many bytes, and how
far it came. The second is written by every commit that spends, so that two runs never spend the same bytes: the later one
is told, and plans again. Where the settings name another policy or size, a new epoch begins with what is held.

What is forgotten is erased from the stream too. ``budget/BAND`` then says from which row on the policy is asked again.
"""

import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from standfast.canon import fingerprint, parse
from standfast.errors import Corruption
from standfast.policies.band_budget import (
    BandBudget,
    BudgetedBand,
    PolicyStep,
    release_row,
    restart_row,
    row_of,
)
from standfast.store.commit import Fact
from standfast.store.records import STREAM, record_of
from standfast.store.store import Store
from standfast.vocabulary import Band, Record


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What budgets make of what a commit wants to write."""

    placed: tuple[Record, ...] = ()
    """What is kept of it."""
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The streams, and how far the budgets are spent."""
    gone: tuple[str, ...] = ()
    """Keys of what is expired for it."""
    facts: tuple[Fact, ...] = ()


@dataclass(kw_only=True)
class _Open:
    """A band's purse in hand: its epoch, how many rows its stream has, and what this commit adds to them."""

    purse: BudgetedBand
    epoch: int
    rows_before: int = 0
    since: int = 0
    erased: int = 0
    new: list[dict[str, Any]] = field(default_factory=list)
    turns: list[tuple[PolicyStep, Record]] = field(default_factory=list)
    evicted: set[str] = field(default_factory=set)

    def take(self, record: Record) -> PolicyStep:
        turn = self.purse.take(record.key, record)
        self.new.append(row_of(turn, record))
        self.evicted.update(turn.gone)
        return turn

    def release(self, keys: set[str]) -> None:
        if keys:
            self.purse.release(keys)
            self.new.append(release_row(keys))

    def erase(self, count: int) -> None:
        """So many rows of the stream go for good, and with them what the policy knows."""
        if count:
            self.erased += count
            self.new.append(restart_row(self.purse.keys))
            self.since = self.rows_before + len(self.new)
            self.purse.begin_anew()

    def told(self, budget: BandBudget) -> dict[str, Any]:
        return {
            **budget.as_json(),
            "epoch": self.epoch,
            "erased": self.erased,
            "rows": self.rows_before + len(self.new),
            "since": self.since,
            "steps": self.purse.steps,
            "used_bytes": self.purse.used_bytes,
        }


class BandBudgets:
    """The budgets of a memory's bands. What was worked out for one snapshot is kept for the next commit."""

    def __init__(self, budgets: Iterable[BandBudget]) -> None:
        self.budgets = {budget.band: budget for budget in budgets}
        self.lock = threading.RLock()
        """Who spends holds it until the commit is done: policies remember what they were shown."""
        self._warm: dict[Band, tuple[int, _Open]] = {}
        self._spent: set[Band] = set()

    def describe(self) -> list[dict[str, Any]]:
        """The budgets, by band: part of what a policy set's id is made of."""
        return [self.budgets[band].as_json() for band in sorted(self.budgets)]

    def spend(
        self, store: Store, namespace: str, at: int, placed: Sequence[Record], forgotten: Iterable[str]
    ) -> Spending:
        """Show each policy what would go into its band, in order; bands without a budget take everything.

        ``forgotten`` are keys of what is erased: records, and rows of streams.
        """
        self._spent.clear()
        streams = tuple(f"{STREAM}{band}/" for band in self.budgets)
        others = [key for key in forgotten if not key.startswith(streams)]
        spent = Spending(
            placed=tuple(record for record in placed if record.band not in self.budgets),
            rows=restarts(store, namespace, at, others),
        )
        for band in sorted(self.budgets):
            new = [record for record in placed if record.band is band]
            ended = {key for key in forgotten if key.startswith(f"{band}/")}
            erased = [key for key in forgotten if key.startswith(f"{STREAM}{band}/")]
            if new or ended or erased:
                opened = self._opened(store, namespace, at, self.budgets[band], ended)
                opened.release(ended & opened.purse.keys)
                opened.erase(sum(key.startswith(_stream(band, opened.epoch)) for key in erased))
                spent = _joined(spent, self._spend_band(opened, band, new))
                self._warm[band] = (at, opened)
                self._spent.add(band)
        return spent

    def committed(self, snapshot: int) -> None:
        """The last spending was committed as this snapshot, so what was worked out holds for it.

        What it did not spend is as it was only if nobody else committed in between.
        """
        for band, (known_at, opened) in list(self._warm.items()):
            if band not in self._spent and known_at != snapshot - 1:
                continue
            following = _Open(
                purse=opened.purse,
                epoch=opened.epoch,
                rows_before=opened.rows_before + len(opened.new),
                since=opened.since,
                erased=opened.erased,
            )
            self._warm[band] = snapshot, following

    def lost(self) -> None:
        """The last spending was not committed; it never happened, and policies can't unsee it."""
        self._warm.clear()

    def _spend_band(self, opened: _Open, band: Band, new: Sequence[Record]) -> Spending:
        purse, budget = opened.purse, self.budgets[band]
        for record in new:
            # A band holds versions of a subject side by side, because each is a step of its own.
            number = f"{opened.epoch}.{purse.steps}"
            own = record if record.subject is None else _numbered(record, number)
            opened.turns.append((opened.take(own), own))
        rows = {
            f"{_stream(band, opened.epoch)}{number:012d}": row
            for number, row in enumerate(opened.new, opened.rows_before)
        }
        rows[f"budget/{band}"] = opened.told(budget)
        written = {turn.key for turn, _ in opened.turns}
        return Spending(
            placed=tuple(record for turn, record in opened.turns if turn.key in purse.keys),
            rows=rows,
            gone=tuple(sorted(opened.evicted - written)),
            facts=(_fact(budget, purse, [turn for turn, _ in opened.turns]),),
        )

    def _opened(
        self, store: Store, namespace: str, at: int, budget: BandBudget, forgotten: Collection[str]
    ) -> _Open:
        """The purse as of a snapshot: as it was left, or by going through its stream again."""
        band = budget.band
        warm = self._warm.pop(band, None)
        if warm is not None and warm[0] == at:
            return warm[1]
        purse = BudgetedBand(budget)
        told = _told(store, namespace, at, band) or {"epoch": 0}
        held = sorted(
            store.scan(namespace, prefix=f"{band}/", at=at), key=lambda row: (row.memory_snapshot_id, row.key)
        )
        if {name: told.get(name) for name in budget.as_json()} != budget.as_json():
            opened = _Open(purse=purse, epoch=told["epoch"] + 1)
            for version in held:
                if version.key not in forgotten and opened.take(record_of(version)).held is None:
                    opened.evicted.add(version.key)
            return opened
        prefix, expected = _stream(band, told["epoch"]), told["rows"] - told["erased"]
        stream = list(store.scan(namespace, prefix=prefix, at=at))
        if len(stream) < expected and at < (head := store.head()):
            # Rows were erased since. A commit from this snapshot will be refused, and planned again from the newest one.
            return self._opened(store, namespace, head, budget, forgotten)
        if len(stream) != expected:
            problem = f"{len(stream)} of the {expected} rows of its stream are there"
            raise Corruption(what=f"budget/{band}", problem=problem)
        numbered = [(int(row.key.removeprefix(prefix)), parse(row.content or b"")) for row in stream]
        purse.replay(numbered, since=told["since"], steps=told["steps"])
        opened = _Open(
            purse=purse,
            epoch=told["epoch"],
            rows_before=told["rows"],
            since=told["since"],
            erased=told["erased"],
        )
        opened.release(purse.keys - {version.key for version in held})
        return opened


def restarts(store: Store, namespace: str, at: int, erased: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What streams must tell when these keys are erased, rows of them too: from where policies begin anew, with what."""
    rows: dict[str, dict[str, Any]] = {}
    streamed = [key for key in erased if key.startswith(STREAM)]
    there = store.read(namespace, streamed, at=at) if streamed else {}
    for band in sorted({key.split("/")[1] for key in there}):
        told = _told(store, namespace, at, Band(band))
        count = 0 if told is None else sum(key.startswith(_stream(band, told["epoch"])) for key in there)
        if told is not None and count:
            held = {version.key for version in store.scan(namespace, prefix=f"{band}/", at=at)}
            rows[f"{_stream(band, told['epoch'])}{told['rows']:012d}"] = restart_row(held.difference(erased))
            since = told["rows"] + 1
            rows[f"budget/{band}"] = told | {"erased": told["erased"] + count, "rows": since, "since": since}
    return rows


def _stream(band: str, epoch: int) -> str:
    return f"{STREAM}{band}/{epoch:06d}-"


def _told(store: Store, namespace: str, at: int, band: Band) -> dict[str, Any] | None:
    """What a band's budget tells of itself."""
    key = f"budget/{band}"
    found = store.read(namespace, [key], at=at)
    told: dict[str, Any] | None = parse(found[key].content or b"") if key in found else None
    return told


def _joined(left: Spending, right: Spending) -> Spending:
    return Spending(
        placed=left.placed + right.placed,
        rows=left.rows | right.rows,
        gone=left.gone + right.gone,
        facts=left.facts + right.facts,
    )


def _numbered(record: Record, number: str) -> Record:
    return msgspec.structs.replace(record, memory_id=f"{record.memory_id}@{number}")


def _fact(budget: BandBudget, purse: BudgetedBand, turns: Sequence[PolicyStep]) -> Fact:
    told = {
        "actions": [[turn.t, fingerprint(turn.key)[:16], *turn.actions] for turn in turns],
        "band": budget.band.value,
        "byte_model": budget.byte_model.value,
        "max_bytes": budget.max_bytes,
        "policy": budget.policy,
        "used_bytes": purse.used_bytes,
    }
    return Fact.of("spending", told)
