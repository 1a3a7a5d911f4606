"""A band's byte budget, spent in production exactly as the benchmark spends it.

A budget names its policy, and the policy is the very object that the benchmark grades. What goes into the band is a stream
of steps; each is shown to the policy once, which writes, merges, skips, or expires what is held. The stream is kept beside
the band, so that whoever opens the store later comes to the same state by showing the policy the same steps again.

Steps can be taken out of a stream, because what they told must be forgotten. Nobody can be shown them again, so the
stream then says what is held, and the policy begins anew with that.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from standfast.errors import InvalidValue
from standfast.policies.budget import ByteBudget
from standfast.policies.byte_store import ByteMemoryStore
from standfast.policies.bytes import ByteModel
from standfast.policies.items import MemoryItem, Prices
from standfast.policies.protocol import Track, expire, merge, take_turn, write
from standfast.policies.registry import PolicySpec
from standfast.vocabulary import ActionType, Band, Record, Step, Value

# Law is sealed one by one by humans, proposals wait for them, and what was refused is kept to be diagnosed.
BUDGETED_BANDS: Final = (Band.LEDGER, Band.ACTIVE, Band.WITNESS)
OBSERVATION: Final = "observation"
_encode: Final = msgspec.json.Encoder(order="sorted").encode
_decode: Final = msgspec.json.Decoder().decode
RELEASED: Final = "released"
HELD: Final = "held"


class BandBudget(Value, frozen=True, kw_only=True):
    """How many bytes a band may hold, and which policy decides what to keep."""

    band: Band
    max_bytes: int
    policy: str
    byte_model: ByteModel = ByteModel.SPEC
    seed: int = 0

    def __post_init__(self) -> None:
        self._coerce("band", Band)
        self._coerce("byte_model", ByteModel)
        self._require(
            self.band in BUDGETED_BANDS, f"a budget is of {', '.join(BUDGETED_BANDS)}, not of {self.band}"
        )
        self._require_whole("max_bytes", self.max_bytes, least=1)
        track = PolicySpec.parse(self.policy).track
        self._require(
            track in (Track.UNPRIVILEGED, Track.PRIVILEGED),
            f"{self.policy} is on the {track} track: outside of the benchmark nobody tells it what a step was worth",
        )


class PolicyStep(NamedTuple):
    """What a policy made of one thing: what is held of it, and which earlier ones go for it."""

    t: int
    key: str
    held: MemoryItem | None
    gone: tuple[str, ...]
    actions: tuple[str, ...]


class BudgetedBand:
    """A band's budget with its policy, as of some steps. Not safe to share between threads."""

    def __init__(self, budget: BandBudget) -> None:
        self.budget = budget
        self.steps = 0
        self.begin_anew()
        self._held = ByteMemoryStore(ByteBudget(budget.max_bytes), prices=Prices(budget.byte_model))
        self._keys: dict[int, str] = {}

    @property
    def used_bytes(self) -> int:
        """What is held costs this much."""
        return self._held.held_bytes

    def retained(self) -> set[int]:
        """The steps that memory can still tell of."""
        return self._held.retained()

    def begin_anew(self) -> None:
        """Forget what the policy knows; it takes over what is held when it is next asked."""
        self._policy = PolicySpec.parse(self.budget.policy).build(seed=self.budget.seed)

    def replay(self, rows: Sequence[tuple[int, dict[str, Any]]], *, since: int, steps: int) -> None:
        """Go through a stream again: numbered rows that ``row_of``, ``release_row`` and ``restart_row`` made.

        The policy is asked from row ``since`` on; the row before that says what of the earlier ones was held.
        """
        held = {key for number, row in rows if number == since - 1 for key in row[HELD]}
        for number, row in rows:
            if number < since:
                if row.get("key") in held:
                    self._take_over(row)
            elif RELEASED in row:
                self.release(row[RELEASED])
            else:
                self.steps = row["t"]
                self._turn(row["key"], *map(_decode, row["shown"]))
        self.steps = steps

    def _take_over(self, row: dict[str, Any]) -> None:
        """Hold again what was held, as it was."""
        observation, metadata = map(_decode, row["shown"])
        step, base_t = Step(t=row["t"], observation=observation, metadata=metadata), row["base_t"]
        if base_t is None:
            self._held.apply(write(step))
        elif base_t in self._held:
            self._held.apply(merge(step, base_t))
        else:
            self._held.adopt_orphan(step, base_t, row["byte_cost"])
        self._keys[step.t] = row["key"]

    @property
    def keys(self) -> set[str]:
        """Where all that is held stands."""
        return set(self._keys.values())

    def release(self, keys: Iterable[str]) -> None:
        """Have the bytes back of what is not there any more: it was forgotten, or swept away."""
        gone = set(keys)
        for t in [t for t, key in self._keys.items() if key in gone]:
            self._held.apply(expire(t))
            del self._keys[t]

    def take(self, key: str, record: Record) -> PolicyStep:
        """Show the policy one new thing, which would stand under this key."""
        return self._turn(key, *observed(record))

    def _turn(self, key: str, observation: Any, metadata: dict[str, Any]) -> PolicyStep:
        t = self.steps
        step = Step(t=t, observation=observation, metadata=metadata)
        self.steps += 1
        gone, actions = [], []
        for action, done in take_turn(self._policy, step, self._held):
            actions.append(action.action.value if done else f"{action.action.value} refused")
            if done and action.action is ActionType.EXPIRE and action.target_t is not None:
                gone.append(self._keys.pop(action.target_t))
        item = self._held.item_at(t)
        if item is not None:
            self._keys[t] = key
        return PolicyStep(t, key, item, tuple(gone), tuple(actions) or ("SKIP",))


def observed(record: Record) -> tuple[Any, dict[str, Any]]:
    """What a policy sees of a record: the observation that it came with, or else its text under its subject."""
    for ref in record.refs:
        if ref.get("kind") == OBSERVATION:
            metadata = ref.get("metadata", {})
            if not isinstance(metadata, dict):
                raise InvalidValue(what="refs", problem="the metadata of an observation must be an object")
            return ref.get(OBSERVATION), metadata
    about = {"api": record.subject} if record.subject else {}
    return {**about, "text": record.text}, {"tags": list(record.tags)} if record.tags else {}


def row_of(turn: PolicyStep, record: Record) -> dict[str, Any]:
    """What is kept of a step, so that the policy can be shown it again, and what was held of it."""
    return {
        "base_t": None if turn.held is None else turn.held.merge_parent_t,
        "byte_cost": 0 if turn.held is None else turn.held.byte_cost,
        "key": turn.key,
        # As text, because canonical JSON writes 1.0 as 1, which costs two bytes less.
        "shown": [_encode(part).decode() for part in observed(record)],
        "t": turn.t,
    }


def release_row(keys: Iterable[str]) -> dict[str, Any]:
    """What is kept of a release."""
    return {RELEASED: sorted(keys)}


def restart_row(keys: Iterable[str]) -> dict[str, Any]:
    """What is kept where the policy begins anew: all that is held."""
    return {HELD: sorted(keys)}
