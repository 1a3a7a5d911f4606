"""Policies by name: the one list that production and the benchmark read.

A policy is named as ``Name`` or ``Name(setting=value, …)``; case, hyphens and underscores do not matter, and the reference
release's names are understood too. Others come from installed packages through the entry point group
``standfast.policies``, or as ``module:Class``.
"""

import inspect
import json
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

import msgspec

from standfast.errors import StandfastError, UnknownPolicy
from standfast.policies.protocol import Track, WritePolicy

ENTRY_POINT_GROUP: Final = "standfast.policies"

BUILT_IN: Final = {
    "AlwaysWrite": "trivial",
    "NeverWrite": "trivial",
    "UniformSample": "trivial",
    "PriorityThreshold": "heuristic",
    "RecencyBias": "heuristic",
    "UtilityGreedy": "hindsight",
    "RandomPolicy": "trivial",
    "EpsilonGreedy": "bandits",
    "BanditUCB": "bandits",
    "MergeAggressive": "heuristic",
    "ExpireOldest": "heuristic",
    "OracleOptimal": "hindsight",
    "PriorityGreedy": "heuristic",
    "DriftValue": "drift",
    "MergeFirst": "drift",
}

ALIASES: Final = {
    "no_mem": "NeverWrite",
    "fifo_store_all": "AlwaysWrite",
    "last_kb": "RecencyBias",
}

_SPEC: Final = re.compile(r"\s*([\w.:-]+)\s*(?:\(([^()]*)\))?\s*")


class PolicySpec(msgspec.Struct, frozen=True, order=True):
    """Which policy, and with which settings; nothing is loaded until it is built."""

    name: str
    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "PolicySpec":
        """A policy as people write it. One that does not exist, or has no such setting, is refused here."""
        match = _SPEC.fullmatch(text)
        if match is None:
            raise UnknownPolicy(policy=repr(text), problem="write Name, or Name(setting=value, …)")
        spec = cls(_known_name(match[1]), _settings(text, match[2] or ""))
        _check(spec, spec.build())
        return spec

    def __str__(self) -> str:
        if not self.settings:
            return self.name
        told = ", ".join(f"{name}={json.dumps(value)}" for name, value in self.settings)
        return f"{self.name}({told})"

    @property
    def kind(self) -> type[WritePolicy]:
        """The class of the policy."""
        return _load(self.name)

    @property
    def track(self) -> Track:
        """What the policy may see. A class that does not say sees what everybody may."""
        declared = getattr(self.kind, "track", Track.UNPRIVILEGED)
        try:
            return Track(declared)
        except ValueError:
            raise UnknownPolicy(policy=self.name, problem=f"there is no track {declared!r}") from None

    def build(self, *, seed: int | Callable[[], int] = 0) -> WritePolicy:
        """A new policy. The seed goes to those that roll dice; a function is called only for them."""
        kind = self.kind
        accepted = _accepted(kind)
        chosen = dict(self.settings)
        if "seed" in accepted and "seed" not in chosen:
            chosen["seed"] = seed() if callable(seed) else seed
        unknown = sorted(set(chosen) - accepted)
        if unknown:
            known = ", ".join(sorted(accepted)) or "none"
            problem = f"it has no setting {unknown[0]!r}; it has {known}"
            raise UnknownPolicy(policy=self.name, problem=problem)
        try:
            return kind(**chosen)
        except (StandfastError, TypeError, ValueError) as error:
            raise UnknownPolicy(policy=str(self), problem=str(error)) from None


def names() -> list[str]:
    """The names of all policies that can be found by name: ours in the document's order, then installed ones."""
    return [*BUILT_IN, *sorted(_installed())]


def _known_name(given: str) -> str:
    if ":" in given:
        return given
    wanted = _folded(given)
    # Ours first: looking through all installed packages takes longer than many a run.
    for known in (_OURS, {_folded(name): name for name in _installed()} if wanted not in _OURS else {}):
        if wanted in known:
            return known[wanted]
    raise UnknownPolicy(
        policy=repr(given), problem=f"there is none of that name; there are {', '.join(names())}"
    )


def _folded(name: str) -> str:
    return re.sub("[-_.]", "", name).casefold()


_OURS: Final = {_folded(name): name for name in BUILT_IN} | {
    _folded(old): new for old, new in ALIASES.items()
}


def _settings(text: str, inside: str) -> tuple[tuple[str, Any], ...]:
    settings: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in inside.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
        if not (equals and name.isidentifier() and value):
            raise UnknownPolicy(policy=repr(text), problem=f"{part!r} is no setting=value")
    return tuple(sorted(settings.items()))


def _installed() -> dict[str, Any]:
    return {
        point.name: point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name not in BUILT_IN
    }


@cache
def _load(name: str) -> type[WritePolicy]:
    """The class of a name. What goes wrong in a user's module is told as that policy's problem."""
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
def _accepted(kind: type[WritePolicy]) -> frozenset[str]:
    """The settings that a class takes."""
    return frozenset(inspect.signature(kind).parameters)


def _check(spec: PolicySpec, policy: object) -> None:
    """A track comes with its method: who learns must be on the bandit track, who foresees on the oracle track."""
    track = spec.track
    if (track is Track.BANDIT) != callable(getattr(policy, "learn", None)):
        raise UnknownPolicy(policy=spec.name, problem="learn(step, utility) and the bandit track go together")
    if (track is Track.ORACLE) != callable(getattr(policy, "foresee", None)):
        raise UnknownPolicy(policy=spec.name, problem="foresee(hindsight) and the oracle track go together")
