"""Byte budgets of bands: the band's write policy decides what a commit keeps and what is expired for it.

A budgeted band has two kinds of rows of its own: ``stream/BAND/…``, the steps that the policy was shown, and
``budget/BAND``, the policy, its size and how far it came. Every commit that spends writes ``budget/BAND``, so
two runs never spend the same bytes: the later one conflicts and is planned again. If the settings name
another policy or size, a new epoch begins with the records that the band holds.

In a band that holds others too, untrusted records are shown to a policy only if they fit into free bytes, and
into a quarter of all of them, so that nothing else is expired for them.

What is forgotten is erased from the stream too. ``budget/BAND`` then names the row from which the policy is
shown the stream again.
"""

import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from standfast.errors import Corruption, InvalidValue
from standfast.policies.band_budget import (
    BandBudget,
    BudgetedBand,
    PolicyStep,
    release_row,
    restart_row,
    step_row,
)
from standfast.records.canon import fingerprint, parse
from standfast.records.origins import Origin
from standfast.records.rows import APPEND_ONLY, RowKind
from standfast.records.scopes import prefix_in, prefix_of, row_key
from standfast.records.vocabulary import ActionType, Band, Record
from standfast.store.commit import Fact, Write
from standfast.store.protocol import Version, verified
from standfast.store.store import Store
from standfast.store.stored_records import record_of

UNTRUSTED_BUDGET_SHARE: Final = 4
"""Untrusted records take at most a quarter of a band's bytes."""


@dataclass(frozen=True, kw_only=True)
class Spending:
    """What budgets decided about the records of a commit."""

    records: tuple[Record, ...] = ()
    """The records that are kept."""
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    """New rows of the streams, and the new ``budget/`` rows."""
    expired: tuple[str, ...] = ()
    """Keys of held records that are expired to make room."""
    facts: tuple[Fact, ...] = ()


@dataclass(kw_only=True)
class _BandState:
    """A band's policy as of a snapshot, and what the commit in progress adds to it."""

    policy: BudgetedBand
    epoch: int
    stream_rows: int = 0
    restart_row: int = 0
    erased_rows: int = 0
    new_rows: list[dict[str, Any]] = field(default_factory=list)
    steps: list[tuple[PolicyStep, Record]] = field(default_factory=list)
    evicted: set[str] = field(default_factory=set)
    untrusted: set[str] = field(default_factory=set)
    """The keys of untrusted records, some of which may no longer be held."""

    def has_room_for(self, record: Record) -> bool:
        """Whether a record may be shown.

        Beside others, what is untrusted takes free bytes only, and at most a share of them all.
        """
        if record.origin is not Origin.UNTRUSTED or self.policy.keys <= self.untrusted:
            return True
        price, most = self.policy.price_of(record), self.policy.budget.max_bytes
        is_free = self.policy.used_bytes + price <= most
        return is_free and (self.policy.bytes_of(self.untrusted) + price) * UNTRUSTED_BUDGET_SHARE <= most

    def take(self, record: Record) -> PolicyStep:
        """Show the policy a record."""
        if record.origin is Origin.UNTRUSTED:
            self.untrusted.add(record.key)
        step = self.policy.take(record.key, record)
        self.new_rows.append(step_row(step, record))
        self.evicted.update(step.expired)
        return step

    def release(self, keys: set[str]) -> None:
        """Give back the bytes of records that are no longer there."""
        if keys:
            self.policy.release(keys)
            self.new_rows.append(release_row(keys))

    def erase(self, count: int) -> None:
        """Note that rows of the stream are erased: the policy starts again with what is held."""
        if count:
            self.erased_rows += count
            self.new_rows.append(restart_row(self.policy.keys))
            self.restart_row = self.stream_rows + len(self.new_rows)
            self.policy.reset_policy()

    def budget_row(self, budget: BandBudget) -> dict[str, Any]:
        """Return the content of ``budget/BAND``."""
        return {
            **budget.as_json(),
            "epoch": self.epoch,
            "erased": self.erased_rows,
            "rows": self.stream_rows + len(self.new_rows),
            "since": self.restart_row,
            "steps": self.policy.steps,
            "used_bytes": self.policy.used_bytes,
        }

    def after_commit(self) -> "_BandState":
        """Return the state that the next commit begins with."""
        return _BandState(
            policy=self.policy,
            epoch=self.epoch,
            stream_rows=self.stream_rows + len(self.new_rows),
            restart_row=self.restart_row,
            erased_rows=self.erased_rows,
            untrusted=self.untrusted & self.policy.keys,
        )


class BandBudgets:
    """The budgets of a memory's bands. The state of a snapshot is cached for the next commit."""

    def __init__(self, budgets: Iterable[BandBudget] = ()) -> None:
        self.budgets: dict[Band, BandBudget] = {}
        for budget in budgets:
            if budget.band in self.budgets:
                raise InvalidValue(what="budgets", problem=f"{budget.band} has two budgets; keep one")
            self.budgets[budget.band] = budget
        self.lock = threading.RLock()
        """Held from planning a commit until it is done, because policies remember what they were shown."""
        self._cached: dict[Band, tuple[int, _BandState]] = {}
        self._spent: set[Band] = set()

    def describe(self) -> list[dict[str, Any]]:
        """Return the budgets by band, as part of the policy set's id."""
        return [self.budgets[band].as_json() for band in sorted(self.budgets)]

    def used_bytes(self, band: Band) -> int:
        """Return how many bytes a band used after this object's last commit to it.

        Raises ``KeyError`` if there was none.
        """
        return self._cached[band][1].policy.used_bytes

    def spend(
        self, store: Store, namespace: str, at: int, records: Sequence[Record], forgotten: Iterable[str]
    ) -> Spending:
        """Show each band's policy the records that would go into it, in order.

        Bands without a budget keep everything.

        Args:
            at: The snapshot that the commit begins from.
            forgotten: The keys that the commit erases: records, and rows of streams.
        """
        self._spent.clear()
        streams = tuple(prefix_of(RowKind.STREAM, band) for band in self.budgets)
        others = [key for key in forgotten if not key.startswith(streams)]
        spending = Spending(
            records=tuple(record for record in records if record.band not in self.budgets),
            rows=restarted_rows(store, namespace, at, others),
        )
        for band in sorted(self.budgets):
            new = [record for record in records if record.band is band]
            ended = {key for key in forgotten if key.startswith(prefix_of(band))}
            erased = [key for key in forgotten if key.startswith(prefix_of(RowKind.STREAM, band))]
            if new or ended or erased:
                state = self._state_at(store, namespace, at, self.budgets[band], ended)
                state.release(ended & state.policy.keys)
                state.erase(sum(key.startswith(_stream_prefix(band, state.epoch)) for key in erased))
                spending = _joined(spending, self._spend_band(state, band, new))
                self._cached[band] = (at, state)
                self._spent.add(band)
        return spending

    def committed(self, snapshot: int) -> None:
        """Note that the last spending was committed as this snapshot.

        The cached state of a band that it did not spend stays valid if nobody committed in between.
        """
        for band, (cached_at, state) in list(self._cached.items()):
            if band in self._spent or cached_at == snapshot - 1:
                self._cached[band] = snapshot, state.after_commit()

    def discarded(self) -> None:
        """Note that the last spending was not committed. Policies can't unsee it: no cache is valid."""
        self._cached.clear()

    def _spend_band(self, state: _BandState, band: Band, new: Sequence[Record]) -> Spending:
        policy, budget = state.policy, self.budgets[band]
        for record in filter(state.has_room_for, new):
            # Each version of a subject is a step of its own, so a budgeted band holds them under ids of their
            # own.
            number = f"{state.epoch}.{policy.steps}"
            own = record if record.subject is None else _numbered(record, number)
            state.steps.append((state.take(own), own))
        rows = {
            f"{_stream_prefix(band, state.epoch)}{number:012d}": row
            for number, row in enumerate(state.new_rows, state.stream_rows)
        }
        rows[budget_key(band)] = state.budget_row(budget)
        written = {step.key for step, _ in state.steps}
        return Spending(
            records=tuple(record for step, record in state.steps if step.key in policy.keys),
            rows=rows,
            expired=tuple(sorted(state.evicted - written)),
            facts=(_fact(budget, policy, [step for step, _ in state.steps]),),
        )

    def _state_at(
        self, store: Store, namespace: str, at: int, budget: BandBudget, forgotten: Collection[str]
    ) -> _BandState:
        """Return the state as of a snapshot: the cached one, or one rebuilt from the stream."""
        band = budget.band
        cached = self._cached.pop(band, None)
        if cached is not None and cached[0] == at:
            return cached[1]
        policy = BudgetedBand(budget)
        row = _budget_row(store, namespace, at, band) or {"epoch": 0}
        held = sorted(
            _held_rows(store, namespace, band, at),
            key=lambda one: (one.memory_snapshot_id, one.key),
        )
        if {name: row.get(name) for name in budget.as_json()} != budget.as_json():
            state = _BandState(policy=policy, epoch=row["epoch"] + 1)
            for version in held:
                if version.key not in forgotten and state.take(record_of(version)).item is None:
                    state.evicted.add(version.key)
            return state
        prefix, expected = _stream_prefix(band, row["epoch"]), row["rows"] - row["erased"]
        stream = list(store.scan(namespace, prefix=prefix, at=at))
        if len(stream) < expected and at < (head := store.head()):
            # Rows were erased since this snapshot. The commit will conflict and be planned again from the
            # newest one.
            return self._state_at(store, namespace, head, budget, forgotten)
        if len(stream) != expected:
            problem = f"its stream has {len(stream)} of {expected} rows"
            raise Corruption(what=budget_key(band), problem=problem)
        numbered = [(int(one.key.removeprefix(prefix)), parse(one.content or b"")) for one in stream]
        policy.replay(numbered, since=row["since"], steps=row["steps"])
        state = _BandState(
            policy=policy,
            epoch=row["epoch"],
            stream_rows=row["rows"],
            restart_row=row["since"],
            erased_rows=row["erased"],
            untrusted={one.key for one in held if record_of(one).origin is Origin.UNTRUSTED},
        )
        state.release(policy.keys - {version.key for version in held})
        return state


def _held_rows(store: Store, namespace: str, band: Band, at: int) -> list[Version]:
    """The rows that a band holds. What is in quarantine takes its bytes too, so that it can be released."""
    rows = store.newest_versions(namespace, prefix=prefix_of(band), at=at)
    return [one for one in rows if verified(one).content is not None]


def restarted_rows(store: Store, namespace: str, at: int, erased: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The rows that streams and budgets need when keys are erased: where policies start again."""
    rows: dict[str, dict[str, Any]] = {}
    streamed = [key for key in erased if prefix_in(key) == RowKind.STREAM]
    present = store.read(namespace, streamed, at=at) if streamed else {}
    for band in sorted({key.split("/")[1] for key in present}):
        row = _budget_row(store, namespace, at, Band(band))
        count = (
            0 if row is None else sum(key.startswith(_stream_prefix(band, row["epoch"])) for key in present)
        )
        if row is not None and count:
            held = {version.key for version in _held_rows(store, namespace, Band(band), at)}
            key = f"{_stream_prefix(band, row['epoch'])}{row['rows']:012d}"
            rows[key] = restart_row(held.difference(erased))
            since = row["rows"] + 1
            rows[budget_key(band)] = row | {"erased": row["erased"] + count, "rows": since, "since": since}
    return rows


def restarted_writes(store: Store, namespace: str, at: int, erased: Sequence[str]) -> list[Write]:
    """Return the same rows as writes, for a commit that erases these keys and is planned elsewhere."""
    rows = restarted_rows(store, namespace, at, erased)
    actions = {key: ActionType.WRITE if key.startswith(APPEND_ONLY) else ActionType.MERGE for key in rows}
    return [Write.of(namespace, key, actions[key], row) for key, row in rows.items()]


def budget_key(band: str) -> str:
    """The key of the row that says how far a band's budget is spent."""
    return row_key(RowKind.BUDGET, band)


def _stream_prefix(band: str, epoch: int) -> str:
    return f"{prefix_of(RowKind.STREAM, band)}{epoch:06d}-"


def _budget_row(store: Store, namespace: str, at: int, band: Band) -> dict[str, Any] | None:
    key = budget_key(band)
    found = store.read(namespace, [key], at=at)
    row: dict[str, Any] | None = parse(found[key].content or b"") if key in found else None
    return row


def _joined(left: Spending, right: Spending) -> Spending:
    return Spending(
        records=left.records + right.records,
        rows=left.rows | right.rows,
        expired=left.expired + right.expired,
        facts=left.facts + right.facts,
    )


def _numbered(record: Record, number: str) -> Record:
    return msgspec.structs.replace(record, memory_id=f"{record.memory_id}@{number}")


def _fact(budget: BandBudget, policy: BudgetedBand, steps: Sequence[PolicyStep]) -> Fact:
    content = {
        "actions": [[step.t, fingerprint(step.key)[:16], *step.actions] for step in steps],
        "band": budget.band.value,
        "byte_model": budget.byte_model.value,
        "max_bytes": budget.max_bytes,
        "policy": budget.policy,
        "used_bytes": policy.used_bytes,
    }
    return Fact.of("spending", content)
