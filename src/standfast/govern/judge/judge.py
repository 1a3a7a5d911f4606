"""The judge: floors look at what is to be remembered, and their findings make a verdict.

    hard floor failed -> VOID      soft floor failed -> PARTIAL      all passed -> SEAL

The caller may ask for at least ``SABAR`` or ``888_HOLD``, which can only make a verdict stricter. Judging touches
nothing: the same claim in the same context gets the same judgement on every machine. A floor of one's own,
deterministic or backed by a model, is one class with a name, a threshold, ``hard`` and ``check``:

    registry = FloorRegistry.shipped()
    registry.register(MyFloor())
    judgement = Judge(registry).judge(Claim(record=record, role="agent"), context)
"""

import re
from collections.abc import Iterable, Iterator
from math import isfinite
from numbers import Real
from typing import Any, Final, NamedTuple, Self

from standfast.errors import InvalidValue, StandfastError
from standfast.govern.judge.floors.authority import AuthorityFloor
from standfast.govern.judge.floors.calibration import CalibrationFloor
from standfast.govern.judge.floors.claim import CLEAN, NOTHING_KNOWN, Claim, Finding, Floor, JudgingContext
from standfast.govern.judge.floors.clarity import ClarityFloor
from standfast.govern.judge.floors.corroboration import CorroborationFloor
from standfast.govern.judge.floors.injection import InjectionFloor
from standfast.govern.judge.floors.novelty import NoveltyFloor
from standfast.govern.judge.floors.provenance import ProvenanceFloor
from standfast.govern.judge.floors.secrecy import SecrecyFloor
from standfast.govern.judge.floors.truth import TruthFloor
from standfast.govern.judge.reading.ages import as_of_14
from standfast.limits import FLOAT_DECIMALS, MAX_NAME_CHARS
from standfast.vocabulary import FloorCheck, Value, Verdict

__all__ = ["Claim", "Finding", "Floor", "FloorRegistry", "Judge", "Judgement", "JudgingContext"]

# From lenient to strict: the verdict is the strictest for which there is a reason.
STRICTNESS: Final = {Verdict.SEAL: 0, Verdict.SABAR: 1, Verdict.PARTIAL: 2, Verdict.HOLD: 3, Verdict.VOID: 4}
assert set(STRICTNESS) == set(Verdict)
_MINIMUM_VERDICTS: Final = (Verdict.SABAR, Verdict.HOLD)
_MAX_REASON_CHARS: Final = 400
_MOST_KEPT_CHECKS: Final = 64
_NUMBERED: Final = re.compile(r"F(\d{1,6})_")


class Judgement(Value, frozen=True, kw_only=True):
    """A verdict, what each floor found, in the floors' order, and why it is no SEAL."""

    verdict: Verdict
    floor_checks: tuple[FloorCheck, ...]
    reasons: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The judgement with its floor checks as evidence writes them."""
        checks = [check.as_json() for check in self.floor_checks]
        return {"verdict": self.verdict.value, "floor_checks": checks, "reasons": list(self.reasons)}


class FloorRegistry:
    """Floors by name, in a total order: ``F1_`` to ``F9_``, ``F10_`` and so on, then all others by name."""

    def __init__(self, floors: Iterable[Floor] = ()) -> None:
        self._floors: dict[str, Floor] = {}
        for floor in floors:
            self.register(floor)

    @classmethod
    def shipped(cls) -> Self:
        """The nine that ship, as they are set by default."""
        return cls(
            (
                ProvenanceFloor(),
                TruthFloor(),
                CorroborationFloor(),
                ClarityFloor(),
                SecrecyFloor(),
                InjectionFloor(),
                CalibrationFloor(),
                NoveltyFloor(),
                AuthorityFloor(),
            )
        )

    def register(self, floor: Floor, *, replace: bool = False) -> None:
        """Add a floor; ``replace=True`` puts it in the place of the one that has its name."""
        name = CheckedFloor.of(floor).name
        if name in self._floors and not replace:
            problem = f"there is one named {name} already; give another name, or replace=True"
            raise InvalidValue(what="Floor", problem=problem)
        self._floors[name] = floor

    def named(self, name: str) -> Floor:
        """The floor of that name."""
        try:
            return self._floors[name]
        except KeyError:
            raise InvalidValue(
                what="Floor", problem=f"{name!r:.80} is none of {', '.join(self.names)}"
            ) from None

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in order."""
        return tuple(sorted(self._floors, key=_place))

    def __iter__(self) -> Iterator[Floor]:
        return iter([self._floors[name] for name in self.names])

    def __len__(self) -> int:
        return len(self._floors)


class Judge:
    """Judges claims by the floors that it was given, which are read once and stay as they are."""

    def __init__(self, floors: Iterable[Floor]) -> None:
        self._floors = tuple(CheckedFloor.of(floor) for floor in FloorRegistry(floors))
        if not self._floors:
            raise InvalidValue(
                what="Judge", problem="a judge without floors would seal everything; give at least one"
            )

    def describe(self) -> list[tuple[str, float, bool]]:
        """Name, threshold and hardness of each floor, in order: what a policy set's id is made of."""
        return [(floor.name, floor.threshold, floor.hard) for floor in self._floors]

    def judge(
        self,
        claim: Claim,
        context: JudgingContext = NOTHING_KNOWN,
        *,
        minimum: Verdict | None = None,
        reason: str = "",
    ) -> Judgement:
        """Judge a claim.

        ``minimum`` is SABAR or 888_HOLD if the verdict must be at least that strict; ``reason`` says why.
        """
        if minimum is not None and (type(minimum) is not Verdict or minimum not in _MINIMUM_VERDICTS):
            raise InvalidValue(
                what="Judgement", problem=f"minimum must be SABAR or 888_HOLD, not {minimum!r:.40}"
            )
        checks = tuple([floor.checked(claim, context) for floor in self._floors])
        verdict: Verdict = minimum or Verdict.SEAL
        reasons = [f"{minimum}: {_shown(reason) or 'asked for by the caller'}"] if minimum else []
        for check in checks:
            if not check.passed:
                reasons.append(f"{check.floor}: {check.reason}")
                asked = Verdict.VOID if check.hard else Verdict.PARTIAL
                verdict = max(verdict, asked, key=STRICTNESS.__getitem__)
        return Judgement(verdict=verdict, floor_checks=checks, reasons=tuple(reasons))


class CheckedFloor(NamedTuple):
    """A floor whose name, threshold and hardness were checked, with the checks that it gave, for when it gives them again."""

    floor: Floor
    name: str
    threshold: float
    hard: bool
    clean: FloorCheck
    given: dict[tuple[float, str], FloorCheck]

    @classmethod
    def of(cls, floor: Floor) -> Self:
        try:
            name, threshold, hard, check = floor.name, floor.threshold, floor.hard, floor.check
        except AttributeError as error:
            raise InvalidValue(
                what="Floor", problem=f"it has no {error.name}; see the Floor protocol"
            ) from None
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
            raise InvalidValue(
                what="Floor", problem=f"its name must be 1 to {MAX_NAME_CHARS} characters, not {name!r:.80}"
            )
        if type(hard) is not bool or (number := _score(threshold)) is None or not callable(check):
            problem = f"{name} needs a threshold between 0 and 1, hard as a bool and a check to call, not {threshold!r:.40} and {hard!r:.40}"
            raise InvalidValue(what="Floor", problem=problem)
        clean = FloorCheck(floor=name, score=1.0, passed=True, threshold=number, hard=hard)
        return cls(floor, name, number, hard, clean, {})

    def checked(self, claim: Claim, context: JudgingContext) -> FloorCheck:
        """What the floor finds. Whatever it does instead of answering counts as failing."""
        try:
            found = self.floor.check(claim, context)
            if found is CLEAN:
                return self.clean
            score, reason = found
            # Only what is exactly a float and a string is looked up: True and 1.0 are one key and two answers.
            kept = type(score) is float and type(reason) is str
            if kept and (check := self.given.get((score, reason))) is not None:
                return check
        except Exception as error:  # noqa: BLE001  # A floor is anybody's code; its failure is a finding.
            code = error.code if isinstance(error, StandfastError) else type(error).__name__
            return self._failed(f"error: the floor could not judge ({code})")
        check = self._check(score, reason)
        if kept and len(self.given) < _MOST_KEPT_CHECKS:
            self.given[score, reason] = check
        return check

    def _check(self, given: object, reason: object) -> FloorCheck:
        score = _score(given)
        if score is None:
            return self._failed(
                f"error: the floor gave no score between 0 and 1, but a {type(given).__name__}"
            )
        return FloorCheck(
            floor=self.name,
            score=score,
            passed=score >= self.threshold,
            threshold=self.threshold,
            hard=self.hard,
            reason=_shown(reason) or None,
        )

    def _failed(self, reason: str) -> FloorCheck:
        return FloorCheck(
            floor=self.name,
            score=0.0,
            passed=False,
            threshold=self.threshold,
            hard=self.hard,
            reason=_shown(reason),
        )


def _place(name: str) -> tuple[int, str]:
    numbered = _NUMBERED.match(name)
    return (int(numbered[1]) if numbered else 10**6, name)


def _score(given: object) -> float | None:
    """A score as evidence can hold it, rounded as json-v1 rounds; None for anything but a number from 0 to 1."""
    if isinstance(given, bool) or not isinstance(given, Real):
        return None
    try:
        number = float(given)
    except (OverflowError, TypeError, ValueError):
        return None
    return round(number, FLOAT_DECIMALS) if isfinite(number) and 0 <= number <= 1 else None


def _shown(reason: object) -> str:
    """A reason that can stand in a ledger: text, of bounded length, and nothing that does not print."""
    if not isinstance(reason, str):
        return "no reason given"
    reason = as_of_14(reason[:_MAX_REASON_CHARS])[:_MAX_REASON_CHARS]
    return reason if reason.isprintable() else "".join(char if char.isprintable() else "?" for char in reason)
