"""Episodes: a stream of steps that policies see, and labels that they never do.

A policy is handed steps one by one; labels stay with the benchmark, which grades with them afterwards. No step holds a
reference to its labels, so that hiding them is no matter of good behaviour.
"""

import math
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from standfast.errors import InvalidValue
from standfast.limits import MAX_EPISODE_STEPS
from standfast.vocabulary import Step

_NUMBERS: Final = (int, float)
_FIELDS: Final = frozenset(("steps", "labels"))
_STEP_NEEDS: Final = frozenset(("t", "observation"))
_STEP_FIELDS: Final = frozenset((*_STEP_NEEDS, "metadata"))


class Labels:
    """The truth about an episode: which steps had to be kept, and what each was worth."""

    def __init__(self, given: dict[str, Any], timesteps: frozenset[int]) -> None:
        self.given = given
        self.critical_steps = frozenset(
            _timesteps("critical_steps", given.get("critical_steps", []), timesteps)
        )
        if "breaking_changes" in given:
            _timesteps("breaking_changes", given["breaking_changes"], timesteps)
        self.total_drift_events = _count(given.get("total_drift_events", len(self.critical_steps)))
        self.utility_by_step = _utilities(given.get("utility_by_step", {}), timesteps)

    @cached_property
    def unit(self) -> int:
        """How many exact units one of utility is: the utilities times this are whole numbers.

        A utility is taken as the decimal that it is written as, so that sums and comparisons are exact.
        """
        return math.lcm(*(Fraction(repr(u)).denominator for u in set(self.utility_by_step.values())))

    @cached_property
    def worth(self) -> dict[int, int]:
        """The utility of each step in exact units; steps without a label are worth nothing."""
        unit = self.unit
        exact = {u: int(Fraction(repr(u)) * unit) for u in set(self.utility_by_step.values())}
        return {t: exact[u] for t, u in self.utility_by_step.items()}


class Episode:
    """One stream and its labels. Built only from what keeps the rules; anything else is an ``InvalidValue``."""

    def __init__(self, steps: tuple[Step, ...], labels: dict[str, Any]) -> None:
        if not steps:
            raise InvalidValue(what="Episode", problem="it has no steps")
        if len(steps) > MAX_EPISODE_STEPS:
            raise InvalidValue(what="Episode", problem=f"it has more than {MAX_EPISODE_STEPS} steps")
        for before, after in pairwise(steps):
            if after.t <= before.t:
                said = "stands there twice" if after.t == before.t else f"comes after {before.t}"
                raise InvalidValue(what="Episode", problem=f"timestep {after.t} {said}; t must grow")
        self.steps = steps
        self.labels = Labels(labels, frozenset(step.t for step in steps))

    @classmethod
    def from_json(cls, plain: object) -> "Episode":
        """The episode of one line: ``{"steps": […], "labels": {…}}`` and nothing else."""
        if not (isinstance(plain, dict) and set(plain) == _FIELDS):
            raise InvalidValue(what="Episode", problem='it must be an object with "steps" and "labels" alone')
        if not (isinstance(plain["steps"], list) and isinstance(plain["labels"], dict)):
            raise InvalidValue(what="Episode", problem="steps must be a list and labels an object")
        return cls(tuple(_step(number, step) for number, step in enumerate(plain["steps"])), plain["labels"])

    def as_json(self) -> dict[str, Any]:
        """The episode as a line of a file holds it."""
        return {"steps": [step.as_json() for step in self.steps], "labels": self.labels.given}


def _step(number: int, plain: object) -> Step:
    if not (isinstance(plain, dict) and (plain.keys() == _STEP_FIELDS or plain.keys() == _STEP_NEEDS)):
        problem = f'step {number} must be an object with "t", "observation" and, if need be, "metadata"'
        raise InvalidValue(what="Episode", problem=problem)
    try:
        step = Step(t=plain["t"], observation=plain["observation"], metadata=plain.get("metadata", {}))
    except InvalidValue as error:
        raise InvalidValue(what="Episode", problem=f"step {number}: {error.facts['problem']}") from None
    priority = step.metadata.get("priority", 0)
    if not (_is_number(priority) and 0 <= priority <= 1):
        problem = f"step {number}: priority must be a number from 0 to 1, not {priority!r:.40}"
        raise InvalidValue(what="Episode", problem=problem)
    return step


def _is_number(value: object) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool) and math.isfinite(value)


def _timesteps(name: str, given: object, timesteps: frozenset[int]) -> list[int]:
    if not (isinstance(given, list) and all(type(t) is int and t in timesteps for t in given)):
        raise InvalidValue(what="Episode", problem=f"{name} must be a list of timesteps of the episode")
    return given


def _count(given: object) -> int:
    if not (isinstance(given, int) and not isinstance(given, bool) and given >= 0):
        problem = f"total_drift_events must be a whole number from 0 on, not {given!r:.40}"
        raise InvalidValue(what="Episode", problem=problem)
    return given


def _utilities(given: object, timesteps: frozenset[int]) -> dict[int, float]:
    """Keys are text in JSON; the same timestep can't be spelt twice."""
    if not isinstance(given, dict):
        raise InvalidValue(what="Episode", problem="utility_by_step must be an object")
    names = {str(t): t for t in timesteps}
    utilities = {}
    for name, utility in given.items():
        t = names.get(str(name))
        if t is None:
            problem = f"utility_by_step names {name!r:.40}, which is no timestep"
            raise InvalidValue(what="Episode", problem=problem)
        if not _is_number(utility):
            problem = f"the utility of timestep {name} must be a finite number, not {utility!r:.40}"
            raise InvalidValue(what="Episode", problem=problem)
        utilities[t] = utility
    return utilities
