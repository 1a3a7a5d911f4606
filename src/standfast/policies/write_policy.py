"""What a write policy is, how it is applied to a step, and how it is found by name.

    class MyPolicy:
        track = Track.UNPRIVILEGED

        def select(self, step, store):
            if store.fits(step):
                yield write(step)

A policy is named ``Name`` or ``Name(setting=value, …)``. Case, hyphens and underscores don't matter, and the
reference release's names are aliases. Other policies come from installed packages, through the entry point
group ``standfast.policies``, or are named as ``module:Class``, in production as in the benchmark.
"""

import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from importlib import import_module
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from standfast.errors import BenchError, StandfastError, UnknownPolicy
from standfast.limits import MAX_IDLE_ACTIONS
from standfast.policies.byte_model import frozen
from standfast.policies.byte_store import ByteMemoryStore
from standfast.records.vocabulary import ActionType, MemoryAction, Step


class Track(StrEnum):
    """What a policy may see. A policy declares its track, and is shown no more than that."""

    UNPRIVILEGED = "unprivileged"
    """The observation, and metadata that was not derived from labels."""

    PRIVILEGED = "privileged"
    """The same, and hints in the metadata: ``priority`` from 0 to 1, and ``breaking_change``."""

    BANDIT = "bandit"
    """As unprivileged; after a step, the utility of what was just stored, and of nothing else."""

    ORACLE = "oracle"
    """The whole stream and all its labels, in advance. For upper bounds only."""


# Metadata that is derived from labels, or that production gives as a hint.
HINTS: Final = frozenset(("priority", "breaking_change"))


def visible_metadata(metadata: dict[str, Any], track: Track, hints: frozenset[str] = HINTS) -> dict[str, Any]:
    """Return the metadata that a policy on this track sees, in production and in the benchmark, frozen.

    Hints are not there at all except on the privileged track; all other metadata always is.
    """
    hidden = frozenset[str]() if track is Track.PRIVILEGED else hints
    visible: dict[str, Any] = frozen({key: value for key, value in metadata.items() if key not in hidden})
    return visible


class WritePolicy(Protocol):
    """Decides, step by step, what to store.

    Actions are applied one by one while ``select`` yields them, so a generator sees what its last action did.
    An action that the store rejects costs nothing. The same steps over an equal store must give the same
    actions: beyond the store, a policy knows only the steps before and its seed. A class may declare its
    ``track``; without one it is ``Track.UNPRIVILEGED``.
    """

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """Return the actions for this step: any number of them."""
        ...


@runtime_checkable
class BanditPolicy(Protocol):
    """The second method of a policy on the bandit track."""

    def learn(self, step: Step, utility: float) -> None:
        """Receive the utility of a step whose WRITE or MERGE was just accepted."""
        ...


class Hindsight(msgspec.Struct, frozen=True, kw_only=True):
    """What an oracle knows before the stream begins. Utilities are whole units."""

    steps: Sequence[Step]
    worth: Mapping[int, int]


@runtime_checkable
class OraclePolicy(Protocol):
    """The second method of a policy on the oracle track."""

    def foresee(self, hindsight: Hindsight) -> None:
        """Receive the whole stream, once, before the first step."""
        ...


_SKIP: Final = ActionType.SKIP
SKIP: Final = (MemoryAction(action=_SKIP),)
_SKIPPED: Final = ((SKIP[0], True),)


def write(step: Step, reason: str | None = None, *, compress: bool = False) -> MemoryAction:
    """Return the action that stores the step in full; compressed where the store offers that."""
    return MemoryAction(action=ActionType.WRITE, step=step, reason=reason, compress=compress)


def merge(step: Step, target_t: int, reason: str | None = None, *, compress: bool = False) -> MemoryAction:
    """Return the action that stores what the step changes in that base. The store computes the delta."""
    return MemoryAction(
        action=ActionType.MERGE, step=step, target_t=target_t, reason=reason, compress=compress
    )


def expire(target_t: int, reason: str | None = None) -> MemoryAction:
    """Return the action that removes the item of that timestep and frees its bytes."""
    return MemoryAction(action=ActionType.EXPIRE, target_t=target_t, reason=reason)


def apply_policy(
    policy: WritePolicy, step: Step, store: ByteMemoryStore
) -> Sequence[tuple[MemoryAction, bool]]:
    """Ask a policy about one step and apply its actions. Return each action and whether it was accepted.

    Raises:
        BenchError: The policy yields actions without effect and does not stop. (A step can be stored once
            and each item can expire once, so actions with an effect always end.)
    """
    # Priced before the policy sees the step, so that modifying it does not make it cheaper.
    store.prices.base(step)
    actions = policy.select(step, store)
    if actions is SKIP:
        return _SKIPPED
    applied: list[tuple[MemoryAction, bool]] = []
    idle = 0
    for action in actions:
        accepted = store.apply(action, step)
        applied.append((action, accepted))
        if not accepted or action.action is _SKIP:
            idle += 1
            if idle > MAX_IDLE_ACTIONS:
                raise BenchError("endless_policy", t=step.t, actions=MAX_IDLE_ACTIONS)
    return applied


ENTRY_POINT_GROUP: Final = "standfast.policies"

# The module of each shipped policy, in the document's order. A module is loaded when one of its policies is
# used.
BUILT_IN: Final = {
    "AlwaysWrite": "baselines",
    "NeverWrite": "baselines",
    "UniformSample": "baselines",
    "PriorityThreshold": "baselines",
    "RecencyBias": "baselines",
    "UtilityGreedy": "baselines",
    "RandomPolicy": "baselines",
    "EpsilonGreedy": "baselines",
    "BanditUCB": "baselines",
    "MergeAggressive": "baselines",
    "ExpireOldest": "baselines",
    "OracleOptimal": "baselines",
    "PriorityGreedy": "baselines",
    "DriftValue": "drift",
    "MergeFirst": "drift",
    "RareDrift": "drift",
}

ALIASES: Final = {
    "no_mem": "NeverWrite",
    "fifo_store_all": "AlwaysWrite",
    "last_kb": "RecencyBias",
}

_SPEC: Final = re.compile(r"\s*([\w.:-]+)\s*(?:\(([^()]*)\))?\s*")


class PolicySpec(msgspec.Struct, frozen=True, order=True):
    """A policy's name and settings.

    Example:
        ``PolicySpec.parse("UniformSample(every=5)").build()``
    """

    name: str
    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "PolicySpec":
        """Read ``Name`` or ``Name(setting=value, …)``.

        Raises:
            UnknownPolicy: No policy has this name, or it can't be built with these settings.
        """
        return cls.read(text).checked()

    def checked(self) -> "PolicySpec":
        """Return this if the policy can be built with these settings and has what its track needs."""
        spec, policy, track = self, self.build(), self.track
        if (track is Track.BANDIT) != isinstance(policy, BanditPolicy):
            problem = "learn(step, utility) and the bandit track go together"
            raise UnknownPolicy(policy=spec.name, problem=problem)
        if (track is Track.ORACLE) != isinstance(policy, OraclePolicy):
            problem = "foresee(hindsight) and the oracle track go together"
            raise UnknownPolicy(policy=spec.name, problem=problem)
        return spec

    @classmethod
    def read(cls, text: str, known: Iterable[str] = ()) -> "PolicySpec":
        """Read a name and settings as ``parse`` does, but import and check nothing of a policy that is not
        shipped. ``known`` are names of policies that are not installed.
        """
        match = _SPEC.fullmatch(text)
        if match is None:
            raise UnknownPolicy(policy=repr(text), problem="write Name, or Name(setting=value, …)")
        name = match[1] if match[1] in known else _canonical_name(match[1])
        return cls(name, _parse_settings(text, match[2] or ""))

    @property
    def shipped(self) -> bool:
        """Whether the policy is one of Standfast's own."""
        return self.name in BUILT_IN

    @property
    def place(self) -> str:
        """The policy's class as ``module:Class``. Nothing is imported."""
        if self.shipped:
            return f"standfast.policies.{BUILT_IN[self.name]}:{self.name}"
        if ":" in self.name:
            return self.name
        place: str = _installed()[self.name].value
        return place

    def __str__(self) -> str:
        if not self.settings:
            return self.name
        settings = ", ".join(f"{name}={json.dumps(value)}" for name, value in self.settings)
        return f"{self.name}({settings})"

    @property
    def kind(self) -> type[WritePolicy]:
        """The policy's class."""
        return _load(self.name)

    @property
    def track(self) -> Track:
        """What the policy may see; ``unprivileged`` if its class does not say."""
        declared = getattr(self.kind, "track", Track.UNPRIVILEGED)
        try:
            return Track(declared)
        except ValueError:
            raise UnknownPolicy(policy=self.name, problem=f"there is no track {declared!r}") from None

    @property
    def takes_seed(self) -> bool:
        """Whether the policy uses random numbers and so takes a seed."""
        return "seed" in _parameters(self.kind)

    def build(self, *, seed: int = 0) -> WritePolicy:
        """Return a new policy. The seed goes to policies that take one and whose settings name none."""
        accepted = _parameters(self.kind)
        settings = dict(self.settings)
        if "seed" in accepted:
            settings.setdefault("seed", seed)
        unknown = sorted(set(settings) - accepted)
        if unknown:
            problem = f"it has no setting {unknown[0]!r}; it has {', '.join(sorted(accepted)) or 'none'}"
            raise UnknownPolicy(policy=self.name, problem=problem)
        try:
            return self.kind(**settings)
        except (StandfastError, TypeError, ValueError) as error:
            raise UnknownPolicy(policy=str(self), problem=str(error)) from None


def policy_names() -> list[str]:
    """Return the names of all policies: the shipped ones in the document's order, then installed ones."""
    return [*BUILT_IN, *sorted(_installed())]


def _canonical_name(text: str) -> str:
    if ":" in text:
        return text
    folded = _folded(text)
    if folded in _SHIPPED:
        return _SHIPPED[folded]
    # Only now: looking through all installed packages is slow.
    for name in sorted(_installed()):
        if _folded(name) == folded:
            return name
    problem = f"there is none of that name; there are {', '.join(policy_names())}"
    raise UnknownPolicy(policy=repr(text), problem=problem)


def _folded(name: str) -> str:
    return re.sub("[-_.]", "", name).casefold()


_SHIPPED: Final = {_folded(name): name for name in BUILT_IN} | {
    _folded(alias): name for alias, name in ALIASES.items()
}


def _parse_settings(text: str, inside: str) -> tuple[tuple[str, Any], ...]:
    settings: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in inside.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (equals and name.isidentifier() and value):
            raise UnknownPolicy(policy=repr(text), problem=f"{part!r} is not setting=value")
        if name in settings:
            raise UnknownPolicy(policy=repr(text), problem=f"the setting {name!r} is given twice")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return tuple(sorted(settings.items()))


def _installed() -> dict[str, Any]:
    from importlib.metadata import entry_points  # noqa: PLC0415  # Slow to import, and rarely needed.

    return {
        point.name: point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name not in BUILT_IN
    }


@cache
def _load(name: str) -> type[WritePolicy]:
    """Import the class of a policy. Any error in a user's module is reported as that policy's problem."""
    if name in BUILT_IN:
        built_in: type[WritePolicy] = getattr(import_module(f"standfast.policies.{BUILT_IN[name]}"), name)
        return built_in
    try:
        if ":" in name:
            module, _, attribute = name.partition(":")
            loaded: Any = getattr(import_module(module), attribute)
        else:
            loaded = _installed()[name].load()
    except Exception as error:
        raise UnknownPolicy(policy=name, problem=f"it can't be loaded: {error!r}") from error
    if not (isinstance(loaded, type) and callable(getattr(loaded, "select", None))):
        raise UnknownPolicy(policy=name, problem="a policy is a class with select(step, store)")
    return loaded


@cache
def _parameters(kind: type[WritePolicy]) -> frozenset[str]:
    return frozenset(inspect.signature(kind).parameters)
