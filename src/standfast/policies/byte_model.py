"""What a step costs in bytes, and the items that a store holds.

    WRITE   len(json(observation)) + len(json(metadata)) + 32        spec-v0
            the same + 16 for the index entry                        indexed-v0
    MERGE   len(json(delta)) + 16                                    both models

Where items are stored compressed, observation and delta count with their compressed length. That is the case
for no item, for all, or for those that a policy chooses, by ``Compression``.

``json`` is Python's ``json.dumps`` with its default separators and escapes, as in the benchmark's document,
so that a price can be checked with one line. Priced observations are frozen: a stream's steps are shared by
the policies that are graded on it and by the store that prices them, so a policy that modified one would
change what others see and what its own items cost. Hashed bytes come from ``canon``, never from here.
"""

import json
import zlib
from enum import StrEnum
from typing import Any, Final, NoReturn

import msgspec

from standfast.errors import InvalidValue
from standfast.limits import MAX_PRICED_STEPS
from standfast.records.vocabulary import ActionType, MemoryAction, Step

_REFUSAL: Final = "steps are frozen; work on a copy, for example copy.deepcopy(step.observation)"


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError(_REFUSAL)


class FrozenDict(dict[str, Any]):
    """A dict whose methods can't modify it."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as an ordinary dict."""
        return dict, (dict(self),)


class FrozenList(list[Any]):
    """A list whose methods can't modify it."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as an ordinary list."""
        return list, (list(self),)


def frozen(value: Any) -> Any:
    """Return an equal JSON value in which every dict and list is frozen; as it is if frozen already."""
    kind = type(value)
    if kind is dict:
        return FrozenDict({key: frozen(inner) for key, inner in value.items()})
    if kind is list:
        return FrozenList([frozen(inner) for inner in value])
    return value


HEADER_BYTES: Final = 32
INDEX_BYTES: Final = 16
MERGE_BYTES: Final = 16
API: Final = "api"
PARENT: Final = "merge_parent_t"
COMPRESSION_LEVEL: Final = 9

# NaN is not JSON, and it differs from itself, so a delta that contains it could never be checked.
_JSON: Final = json.JSONEncoder(allow_nan=False)


class ByteModel(StrEnum):
    """How a WRITE is priced. Results name their model: figures of two models can't be compared."""

    SPEC = "spec-v0"
    INDEXED = "indexed-v0"


FIXED_BYTES: Final = {
    ByteModel.SPEC: HEADER_BYTES,
    ByteModel.INDEXED: HEADER_BYTES + INDEX_BYTES,
}
assert set(FIXED_BYTES) == set(ByteModel)


class Compression(StrEnum):
    """Which items are stored compressed."""

    NEVER = "never"
    ALWAYS = "always"
    OFFERED = "offered"
    """Those that a policy asks for by ``compress=True`` in ``write(step)`` and ``merge(step, target_t)``."""


def json_bytes(value: object) -> int:
    """Return the length of a value's JSON text; raise ``InvalidValue`` if it is not JSON."""
    return len(_json_text(value))


def _json_text(value: object) -> str:
    try:
        return _JSON.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(
            what="Step", problem=f"it can't be priced, because it is not JSON: {error}"
        ) from None


def compressed_bytes(value: object) -> int:
    """Return the stored length of a value: deflated by zlib or not, whichever is shorter, and one byte."""
    text = _json_text(value).encode("ascii")
    return 1 + min(len(text), len(zlib.compress(text, COMPRESSION_LEVEL)))


def estimate_bytes(step: Step, model: ByteModel = ByteModel.SPEC) -> int:
    """Return the cost of a WRITE of this step."""
    return json_bytes(step.observation) + json_bytes(step.metadata) + FIXED_BYTES[model]


def endpoint_of(observation: object) -> str | None:
    """Return the endpoint of an observation: its ``api``, if that is a string. Others can't be merged."""
    api = observation.get(API) if isinstance(observation, dict) else None
    return api if isinstance(api, str) else None


def canonical_delta(base: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of ``new`` that ``base`` lacks or has otherwise, without the endpoint's name.

    A key that is missing from the base is a change even if its new value is null.
    """
    return {
        key: value for key, value in new.items() if key != API and (key not in base or value != base[key])
    }


class MemoryItem(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One stored item: a base that a WRITE stored in full, or a delta that a MERGE attached to a base."""

    step: Step
    written_at: int
    byte_cost: int
    metadata: dict[str, Any] = {}
    api: str | None = None
    merge_parent_t: int | None = None
    is_compressed: bool = False
    write_actions: tuple[MemoryAction, ...] = ()
    """For a base: the WRITE that stores it, for policies to return.

    Building it at every decision would cost more than the rest.
    """
    deltas: dict[int, tuple[Any, "MemoryItem"]] = msgspec.field(default_factory=dict)
    """For a base: what a MERGE of its step would store, by an older base's timestep and observation.

    Computed when first asked for. Each run adds at most one entry."""


class PriceList:
    """Prices the steps that were shown so far, and their deltas.

    A policy asks for a price before the store charges it. A price belongs to one step object: another object
    with the same timestep is priced anew, and a step that is modified after it was priced keeps its price. A
    benchmark, which runs many policies over the same steps, prices each step once and shows it to the list of
    each run when its turn comes, so a list never knows a later step.
    """

    def __init__(
        self, model: ByteModel = ByteModel.SPEC, *, compression: Compression = Compression.NEVER
    ) -> None:
        self.model = model
        self.compression = compression
        self._measure = compressed_bytes if compression is Compression.ALWAYS else json_bytes
        self._shown: dict[int, MemoryItem] = {}

    def show(self, item: MemoryItem) -> None:
        """Use this price from now on for the item's step."""
        self._shown[item.written_at] = item

    def base(self, step: Step) -> MemoryItem:
        """Return the item that a WRITE of this step would store."""
        known = self._shown.get(step.t)
        if known is not None and known.step is step:
            return known
        if len(self._shown) >= MAX_PRICED_STEPS:
            self._shown.clear()
        item = self._shown[step.t] = self.price(step, self._measure(step.observation))
        return item

    def delta(self, base: MemoryItem, step: Step) -> MemoryItem:
        """The item that a MERGE of this step into that base would store; its observation may be empty."""
        deltas = self.base(step).deltas
        old, base_t = base.step.observation, base.step.t
        known = deltas.get(base_t)
        if known is not None and known[0] is old:
            return known[1]
        patch = canonical_delta(old, step.observation)
        metadata = frozen({PARENT: base_t})
        item = MemoryItem(
            step=Step(t=step.t, observation=frozen(patch), metadata=metadata),
            written_at=step.t,
            byte_cost=self._measure(patch) + MERGE_BYTES,
            metadata=metadata,
            api=base.api,
            merge_parent_t=base_t,
        )
        deltas[base_t] = (old, item)
        return item

    def compressed(self, item: MemoryItem) -> MemoryItem:
        """Return an item as it is stored if a policy has it compressed."""
        fixed = (
            MERGE_BYTES
            if item.merge_parent_t is not None
            else json_bytes(item.step.metadata) + FIXED_BYTES[self.model]
        )
        byte_cost = compressed_bytes(item.step.observation) + fixed
        return msgspec.structs.replace(item, byte_cost=byte_cost, is_compressed=True)

    def price(self, step: Step, observation_bytes: int) -> MemoryItem:
        """Return the item that a WRITE of a step would store whose observation has this length."""
        return MemoryItem(
            step=step,
            written_at=step.t,
            byte_cost=observation_bytes + json_bytes(step.metadata) + FIXED_BYTES[self.model],
            api=endpoint_of(step.observation),
            write_actions=(MemoryAction(action=ActionType.WRITE, step=step),),
        )
