"""Byte budgets of bands: what a commit may keep, decided by the band's policy, and what goes for it.

Beside a budgeted band stand its stream, ``stream/BAND/…``, and ``budget/BAND``: which policy spends how many bytes, and how
far it came. The second is written by every commit that spends, so that two runs never spend the same bytes: the later one
is told, and plans again. Where the settings name another policy or size, a new epoch begins with what is held.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.canon import fingerprint, parse
from holdfast.errors import Corruption
from holdfast.policies.spending import BandBudget, Purse, Turn, release_row, row_of
from holdfast.store.commit import Fact
from holdfast.store.records import record_of
from holdfast.store.store import Store
from holdfast.vocabulary import Band, Record


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

    purse: Purse
    epoch: int
    rows_before: int
    new: list[dict[str, Any]] = field(default_factory=list)
    turns: list[tuple[Turn, Record]] = field(default_factory=list)
    evicted: set[str] = field(default_factory=set)

    def take(self, record: Record) -> Turn:
        turn = self.purse.take(record.key, record)
        self.new.append(row_of(turn, record))
        self.evicted.update(turn.gone)
        return turn

    def release(self, keys: set[str]) -> None:
        if keys:
            self.purse.release(keys)
            self.new.append(release_row(keys))


class Purses:
    """The budgets of a memory's bands. What was worked out for one snapshot is kept for the next commit."""

    def __init__(self, budgets: Iterable[BandBudget]) -> None:
        self.budgets = {budget.band: budget for budget in budgets}
        self.lock = threading.RLock()
        """Who spends holds it until the commit is done: policies remember what they were shown."""
        self._warm: dict[Band, tuple[int, _Open]] = {}

    def describe(self) -> list[dict[str, Any]]:
        """The budgets, by band: part of what a policy set's id is made of."""
        return [self.budgets[band].as_json() for band in sorted(self.budgets)]

    def spend(
        self, store: Store, namespace: str, at: int, placed: Sequence[Record], forgotten: Iterable[str]
    ) -> Spending:
        """Show each policy what would go into its band, in order; bands without a budget take everything."""
        spent = Spending(placed=tuple(record for record in placed if record.band not in self.budgets))
        for band in sorted(self.budgets):
            new = [record for record in placed if record.band is band]
            ended = {key for key in forgotten if key.startswith(f"{band}/")}
            if new or ended:
                opened = self._opened(store, namespace, at, self.budgets[band])
                opened.release(ended & opened.purse.keys)
                spent = _joined(spent, self._spend_band(opened, band, new))
                self._warm[band] = (at, opened)
        return spent

    def committed(self, snapshot: int) -> None:
        """The last spending was committed as this snapshot, so what was worked out holds for it."""
        for band, (_, opened) in list(self._warm.items()):
            rows = opened.rows_before + len(opened.new)
            self._warm[band] = snapshot, _Open(purse=opened.purse, epoch=opened.epoch, rows_before=rows)

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
            f"stream/{band}/{opened.epoch:06d}-{opened.rows_before + number:012d}": row
            for number, row in enumerate(opened.new)
        }
        rows[f"budget/{band}"] = {
            **budget.as_json(),
            "epoch": opened.epoch,
            "rows": opened.rows_before + len(opened.new),
            "used_bytes": purse.used_bytes,
        }
        written = {turn.key for turn, _ in opened.turns}
        return Spending(
            placed=tuple(record for turn, record in opened.turns if turn.key in purse.keys),
            rows=rows,
            gone=tuple(sorted(opened.evicted - written)),
            facts=(_fact(budget, purse, [turn for turn, _ in opened.turns]),),
        )

    def _opened(self, store: Store, namespace: str, at: int, budget: BandBudget) -> _Open:
        """The purse as of a snapshot: as it was left, or by going through its stream again."""
        band = budget.band
        warm = self._warm.pop(band, None)
        if warm is not None and warm[0] == at:
            return warm[1]
        purse = Purse(budget)
        key = f"budget/{band}"
        found = store.read(namespace, [key], at=at)
        told = parse(found[key].content or b"") if key in found else {"epoch": 0}
        held = sorted(
            store.scan(namespace, prefix=f"{band}/", at=at), key=lambda row: (row.memory_snapshot_id, row.key)
        )
        if {name: told.get(name) for name in budget.as_json()} != budget.as_json():
            opened = _Open(purse=purse, epoch=told["epoch"] + 1, rows_before=0)
            for version in held:
                if not opened.take(record_of(version)).kept:
                    opened.evicted.add(version.key)
            return opened
        prefix = f"stream/{band}/{told['epoch']:06d}-"
        rows = purse.replay(parse(row.content or b"") for row in store.scan(namespace, prefix=prefix, at=at))
        if rows != told["rows"]:
            raise Corruption(what=key, problem=f"{rows} of the {told['rows']} rows of its stream are there")
        opened = _Open(purse=purse, epoch=told["epoch"], rows_before=rows)
        opened.release(purse.keys - {version.key for version in held})
        return opened


def _joined(left: Spending, right: Spending) -> Spending:
    return Spending(
        placed=left.placed + right.placed,
        rows=left.rows | right.rows,
        gone=left.gone + right.gone,
        facts=left.facts + right.facts,
    )


def _numbered(record: Record, number: str) -> Record:
    return msgspec.structs.replace(record, memory_id=f"{record.memory_id}@{number}")


def _fact(budget: BandBudget, purse: Purse, turns: Sequence[Turn]) -> Fact:
    told = {
        "actions": [[turn.t, fingerprint(turn.key)[:16], *turn.actions] for turn in turns],
        "band": budget.band.value,
        "byte_model": budget.byte_model.value,
        "max_bytes": budget.max_bytes,
        "policy": budget.policy,
        "used_bytes": purse.used_bytes,
    }
    return Fact.of("spending", told)
