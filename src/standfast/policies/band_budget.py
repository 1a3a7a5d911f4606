"""A band's byte budget, spent in production as the benchmark spends it.

A budget names its policy: the same class that the benchmark grades. Each record that would go into the band
is one step of a stream. The policy sees each step once and writes, merges or skips it, or expires stored
items. The stream is stored next to the band, so that another process reaches the same state by showing the
policy the same steps again.

Steps are erased from a stream when their content is forgotten. The policy can't be shown them again, so the
stream then lists what is stored, and a new policy continues from there.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from standfast.errors import InvalidValue
from standfast.policies.byte_model import ByteModel, MemoryItem, PriceList, frozen
from standfast.policies.byte_store import ByteBudget, ByteMemoryStore
from standfast.policies.write_policy import (
    PolicySpec,
    Track,
    apply_policy,
    expire,
    merge,
    visible_metadata,
    write,
)
from standfast.records.scopes import SHARED
from standfast.records.vocabulary import ActionType, Band, Record, Step, Value

# Law is sealed by humans, proposals wait for them, and rejected content is kept for diagnosis.
BUDGETED_BANDS: Final = (Band.LEDGER, Band.ACTIVE, Band.WITNESS)
OBSERVATION: Final = "observation"
RELEASED: Final = "released"
HELD: Final = "held"
_encode: Final = msgspec.json.Encoder(order="sorted").encode
_decode: Final = msgspec.json.Decoder().decode


class BandBudget(Value, frozen=True, kw_only=True):
    """How many bytes a band may hold, and which policy decides what to keep.

    Example:
        ``BandBudget(band=Band.ACTIVE, max_bytes=10_000, policy="RecencyBias")``
    """

    band: Band
    max_bytes: int
    policy: str
    byte_model: ByteModel = ByteModel.SPEC
    seed: int = 0

    def __post_init__(self) -> None:
        self._coerce("band", Band)
        self._coerce("byte_model", ByteModel)
        self._require(
            self.band in BUDGETED_BANDS,
            f"{self.band} can't have a budget; {', '.join(BUDGETED_BANDS)} can",
        )
        self._require_whole("max_bytes", self.max_bytes, least=1)
        track = PolicySpec.parse(self.policy).track
        self._require(
            track in (Track.UNPRIVILEGED, Track.PRIVILEGED),
            f"{self.policy} is on the {track} track, which needs labels that only the benchmark has",
        )


class PolicyStep(NamedTuple):
    """What a policy did with one record: the item that stores it, and the keys of records that expired."""

    t: int
    key: str
    item: MemoryItem | None
    expired: tuple[str, ...]
    actions: tuple[str, ...]


class BudgetedBand:
    """The state of a band's budget and its policy after some steps. Not thread-safe."""

    def __init__(self, budget: BandBudget) -> None:
        self.budget = budget
        self.steps = 0
        self._track = PolicySpec.parse(budget.policy).track
        self.reset_policy()
        self._store = ByteMemoryStore(ByteBudget(budget.max_bytes), prices=PriceList(budget.byte_model))
        self._keys: dict[int, str] = {}

    @property
    def used_bytes(self) -> int:
        """The cost of everything that is stored."""
        return self._store.held_bytes

    @property
    def keys(self) -> set[str]:
        """The keys of all stored records."""
        return set(self._keys.values())

    def retained(self) -> set[int]:
        """Return the retained timesteps."""
        return self._store.retained()

    def reset_policy(self) -> None:
        """Replace the policy by a new one, which takes over the stored items at its next step."""
        self._policy = PolicySpec.parse(self.budget.policy).build(seed=self.budget.seed)

    def bytes_of(self, keys: Collection[str]) -> int:
        """Return what the stored records with these keys cost."""
        items = (self._store.item_at(t) for t, key in self._keys.items() if key in keys)
        return sum(item.byte_cost for item in items if item is not None)

    def price_of(self, record: Record) -> int:
        """Return what a record would cost if it were stored in full."""
        step = self._shown(self.steps, *observed(record))
        return PriceList(self.budget.byte_model).base(step).byte_cost

    def take(self, key: str, record: Record) -> PolicyStep:
        """Show the policy a new record, which would be stored under this key."""
        return self._step(key, *observed(record))

    def release(self, keys: Iterable[str]) -> None:
        """Free the bytes of records that were forgotten or removed by retention."""
        released = set(keys)
        for t in [t for t, key in self._keys.items() if key in released]:
            self._store.apply(expire(t))
            del self._keys[t]

    def replay(self, rows: Sequence[tuple[int, dict[str, Any]]], *, since: int, steps: int) -> None:
        """Restore the state from the numbered rows of a stream.

        Args:
            rows: Rows that ``step_row``, ``release_row`` and ``restart_row`` made, in order.
            since: The number of the first row that the policy is shown. The row before it lists the earlier
                records that are stored.
            steps: How many steps the stream has, including erased ones.
        """
        stored = {key for number, row in rows if number == since - 1 for key in row[HELD]}
        for number, row in rows:
            if number < since:
                if row.get("key") in stored:
                    self._restore(row)
            elif RELEASED in row:
                self.release(row[RELEASED])
            else:
                self.steps = row["t"]
                self._step(row["key"], *map(_decode, row["shown"]))
        self.steps = steps

    def _restore(self, row: dict[str, Any]) -> None:
        """Store a record again as it was stored at that step, without asking the policy."""
        step, base_t = self._shown(row["t"], *map(_decode, row["shown"])), row["base_t"]
        if base_t is None:
            self._store.apply(write(step))
        elif base_t in self._store:
            self._store.apply(merge(step, base_t))
        else:
            self._store.add_orphan(step, base_t, row["byte_cost"])
        self._keys[step.t] = row["key"]

    def _shown(self, t: int, observation: Any, metadata: dict[str, Any]) -> Step:
        """Return the step that the policy sees, as its track would in the benchmark."""
        return Step(t=t, observation=frozen(observation), metadata=visible_metadata(metadata, self._track))

    def _step(self, key: str, observation: Any, metadata: dict[str, Any]) -> PolicyStep:
        t = self.steps
        step = self._shown(t, observation, metadata)
        self.steps += 1
        expired, actions = [], []
        for action, accepted in apply_policy(self._policy, step, self._store):
            actions.append(action.action.value if accepted else f"{action.action.value} refused")
            if accepted and action.action is ActionType.EXPIRE and action.target_t is not None:
                expired.append(self._keys.pop(action.target_t))
        item = self._store.item_at(t)
        if item is not None:
            self._keys[t] = key
        return PolicyStep(t, key, item, tuple(expired), tuple(actions) or ("SKIP",))


def observed(record: Record) -> tuple[Any, dict[str, Any]]:
    """Return the observation and metadata that a policy sees: the ``observation`` ref's, or the text."""
    for ref in record.refs:
        if ref.get("kind") == OBSERVATION:
            metadata = ref.get("metadata", {})
            if not isinstance(metadata, dict):
                raise InvalidValue(what="refs", problem="the metadata of an observation must be an object")
            return ref.get(OBSERVATION), metadata
    # Equal subjects of two scopes are two things.
    scope = "" if record.scope == SHARED else f"{record.scope}//"
    subject = {"api": f"{scope}{record.subject}"} if record.subject else {}
    return {**subject, "text": record.text}, {"tags": list(record.tags)} if record.tags else {}


def step_row(step: PolicyStep, record: Record) -> dict[str, Any]:
    """Return the row that stores a step: what the policy was shown, and what was stored of it."""
    return {
        "base_t": None if step.item is None else step.item.merge_parent_t,
        "byte_cost": 0 if step.item is None else step.item.byte_cost,
        "key": step.key,
        # As text, because canonical JSON writes 1.0 as 1, which costs two bytes less.
        "shown": [_encode(part).decode() for part in observed(record)],
        "t": step.t,
    }


def release_row(keys: Iterable[str]) -> dict[str, Any]:
    """Return the row that stores a release."""
    return {RELEASED: sorted(keys)}


def restart_row(keys: Iterable[str]) -> dict[str, Any]:
    """Return the row that stores where a new policy starts: the keys of all stored records."""
    return {HELD: sorted(keys)}
