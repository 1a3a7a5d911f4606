"""The judge: floors check what is to be remembered, and their findings make a verdict.

    hard floor failed -> VOID      soft floor failed -> PARTIAL      all passed -> SEAL

The caller may ask for at least ``SABAR`` or ``888_HOLD``, which can only make a verdict stricter. Judging
reads nothing but its arguments: the same claim in the same context gets the same judgement on every machine.
A floor of one's own, deterministic or backed by a model, is a class with a name, a threshold, ``hard`` and
``check``:

    registry = FloorRegistry.shipped()
    registry.register(MyFloor())
    judgement = Judge(registry).judge(Claim(record=record, role="agent"), context)

Settings can give each floor allow-lists, by pattern, scope or source. An allowance never lets a text pass
silently: the evidence says that it was allowed, and why the floor would have failed it.

    [floors.F5_Secrecy]
    allow = ["EXAMPLE[A-Z0-9]{8,}"]        # parts of a text that match are not looked at
    allow_scopes = ["team/security"]       # nor is anything in this scope, or below it
    allow_sources = ["doc:handbook*"]      # nor what comes from such a source
"""

import dataclasses
import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from numbers import Real
from typing import Any, Final, NamedTuple, Self

import msgspec

from standfast.errors import InvalidValue, StandfastError
from standfast.govern.judge.claim import (
    CLEAN,
    NOTHING_KNOWN,
    Claim,
    Finding,
    Floor,
    JudgingContext,
    NeedsReview,
    source_key,
)
from standfast.govern.judge.floors import (
    AuthorityFloor,
    CalibrationFloor,
    ClarityFloor,
    CorroborationFloor,
    NoveltyFloor,
    ProvenanceFloor,
    TruthFloor,
)
from standfast.govern.judge.injection import InjectionFloor
from standfast.govern.judge.secrecy import SecrecyFloor
from standfast.govern.judge.text_reading import as_of_unicode_14
from standfast.limits import FLOAT_DECIMALS, MAX_NAME_CHARS
from standfast.records.scopes import checked_scope, is_within
from standfast.records.vocabulary import FloorCheck, Value, Verdict

__all__ = ["Claim", "Finding", "Floor", "FloorRegistry", "Judge", "Judgement", "JudgingContext"]

# From lenient to strict. The strictest verdict for which there is a reason is given.
STRICTNESS: Final = {Verdict.SEAL: 0, Verdict.SABAR: 1, Verdict.PARTIAL: 2, Verdict.HOLD: 3, Verdict.VOID: 4}
assert set(STRICTNESS) == set(Verdict)
_MINIMUM_VERDICTS: Final = (Verdict.SABAR, Verdict.HOLD)
_MAX_REASON_CHARS: Final = 400
ENTRY_POINT: Final = "entry_point"
_NUMBERED_NAME: Final = re.compile(r"F(\d{1,6})_")


class Judgement(Value, frozen=True, kw_only=True, gc=False):
    """A verdict, what each floor found (in the order of the floors), and the reasons if it is no SEAL.

    Each reason says what happened, why, and what to do about it, and ends with the floors' names in brackets:
    ``rejected: contains a secret (AWS access key id). Remove it [F5_Secrecy]``.
    """

    verdict: Verdict
    floor_checks: tuple[FloorCheck, ...]
    reasons: tuple[str, ...] = ()
    known: str | None = None
    """The id of the record that says the same already."""

    def as_json(self) -> dict[str, Any]:
        """The judgement with its floor checks in the form that evidence stores."""
        checks = [check.as_json() for check in self.floor_checks]
        known = {} if self.known is None else {"known": self.known}
        return {"verdict": self.verdict.value, "floor_checks": checks, "reasons": list(self.reasons), **known}


class FloorRegistry:
    """Floors by name, in a total order: ``F1_`` to ``F9_``, ``F10_`` and so on, then all others by name."""

    def __init__(self, floors: Iterable[Floor] = ()) -> None:
        self._floors: dict[str, Floor] = {}
        for floor in floors:
            self.register(floor)

    @classmethod
    def shipped(cls) -> Self:
        """The nine floors that ship, with their defaults."""
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
        """Adds a floor; ``replace=True`` replaces the one of the same name."""
        name = CheckedFloor.of(floor).name
        if name in self._floors and not replace:
            problem = f"there is already a floor named {name}; choose another name, or pass replace=True"
            raise InvalidValue(what="Floor", problem=problem)
        self._floors[name] = floor

    def named(self, name: str) -> Floor:
        """The floor of that name."""
        try:
            return self._floors[name]
        except KeyError:
            problem = f"there is no floor {name!r:.80}; the names are {', '.join(self.names)}"
            raise InvalidValue(what="Floor", problem=problem) from None

    def configured(self, options: Mapping[str, Mapping[str, object]]) -> "FloorRegistry":
        """A copy with some floors switched off or changed, as settings describe them.

        ``options`` has a mapping for each floor to change: ``enabled``, the fields of the floor's dataclass,
        such as ``threshold`` and ``hard``, and allow-lists (``allow``, ``allow_scopes``, ``allow_sources``).
        ``entry_point`` names a floor of your own, as ``module:name``.

            registry.configured({"F6_Injection": {"enabled": False}, "F3_Witness": {"threshold": 0.75}})
        """
        floors = dict(self._floors)
        for name in sorted(options):
            own = dict(options[name])
            if (entry_point := own.pop(ENTRY_POINT, None)) is not None:
                floors[name] = load_floor(name, entry_point)
            floor = _configured(floors[name] if name in floors else self.named(name), own)
            if floor is None:
                del floors[name]
            else:
                floors[name] = floor
        return FloorRegistry(floors.values())

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in order."""
        return tuple(sorted(self._floors, key=_sort_key))

    def __iter__(self) -> Iterator[Floor]:
        return iter([self._floors[name] for name in self.names])

    def __len__(self) -> int:
        return len(self._floors)


class Judge:
    """Judges claims by the given floors. Their names, thresholds and hardness are read once."""

    @classmethod
    def of(cls, floors: "Iterable[Floor] | Judge | None") -> "Judge":
        """The judge of these floors; without any, of those that ship."""
        if isinstance(floors, Judge):
            return floors
        return cls(FloorRegistry.shipped() if floors is None else floors)

    def __init__(self, floors: Iterable[Floor]) -> None:
        self._floors = tuple(CheckedFloor.of(floor) for floor in FloorRegistry(floors))
        if not self._floors:
            raise InvalidValue(
                what="Judge", problem="without floors it would accept everything; give at least one"
            )
        novelty = [
            (place, floor)
            for place, checked in enumerate(self._floors)
            if isinstance(floor := unwrapped(checked.floor), NoveltyFloor)
        ]
        self._novelty = novelty[0] if novelty else None

    def describe(self) -> list[tuple[str | float | bool | dict[str, object], ...]]:
        """Name, threshold and hardness of each floor, in order, and its other options that are not at their
        default.

        The id of the policy set is computed from this. Options are the scalar fields of a floor that is a
        dataclass.
        """
        return [floor.describe() for floor in self._floors]

    def judge(
        self,
        claim: Claim,
        context: JudgingContext = NOTHING_KNOWN,
        *,
        minimum: Verdict | None = None,
        reason: str = "",
    ) -> Judgement:
        """Judges a claim.

        ``minimum`` is SABAR or 888_HOLD if the verdict must be at least that strict; ``reason`` says why.
        """
        if minimum is not None and (type(minimum) is not Verdict or minimum not in _MINIMUM_VERDICTS):
            raise InvalidValue(
                what="Judgement", problem=f"minimum must be SABAR or 888_HOLD, not {minimum!r:.40}"
            )
        checks = tuple([floor.check(claim, context) for floor in self._floors])
        known = None
        if self._novelty is not None:
            place, floor = self._novelty
            known = None if checks[place] is self._floors[place].clean else floor.known(claim, context)
        failed = [check for check in checks if not check.passed]
        if not failed and minimum is None:
            return Judgement(verdict=Verdict.SEAL, floor_checks=checks, known=known)
        verdict: Verdict = minimum or Verdict.SEAL
        reasons = [f"{_printable(reason) or 'asked for by the caller'} [{minimum}]"] if minimum else []
        floors_of_reason: dict[str, list[str]] = {}
        for check in failed:
            outcome = "rejected" if check.hard else "needs review"
            why = f"{outcome}: {check.reason or 'no reason given'}"
            floors_of_reason.setdefault(why, []).append(check.floor)
            own_verdict = Verdict.VOID if check.hard else Verdict.PARTIAL
            verdict = max(verdict, own_verdict, key=STRICTNESS.__getitem__)
        reasons += [f"{why} [{', '.join(floors)}]" for why, floors in floors_of_reason.items()]
        return Judgement(verdict=verdict, floor_checks=checks, reasons=tuple(reasons), known=known)


class CheckedFloor(NamedTuple):
    """A floor whose name, threshold and hardness have been validated."""

    floor: Floor
    name: str
    threshold: float
    hard: bool
    clean: FloorCheck

    @classmethod
    def of(cls, floor: Floor) -> Self:
        """Validates a floor; raises ``InvalidValue`` if it does not fit the ``Floor`` protocol."""
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
            problem = (
                f"{name} needs a threshold between 0 and 1, hard as a bool and a callable check, "
                f"not {threshold!r:.40} and {hard!r:.40}"
            )
            raise InvalidValue(what="Floor", problem=problem)
        plain_name = str.__str__(name)
        clean = FloorCheck(floor=plain_name, score=1.0, passed=True, threshold=number, hard=hard)
        return cls(floor, plain_name, number, hard, clean)

    def describe(self) -> tuple[str | float | bool | dict[str, object], ...]:
        """The floor as ``Judge.describe`` lists it."""
        options: dict[str, object] = {
            field.name: value
            for field in _options_of(self.floor)
            if field.name not in ("threshold", "hard")
            and type(value := getattr(self.floor, field.name)) in (bool, int, float, str)
            and value != field.default
        }
        floor = unwrapped(self.floor)
        if floor is not self.floor:
            options = {
                name: list(listed) for name in ALLOWING_OPTIONS if (listed := getattr(self.floor, name))
            }
            described = CheckedFloor.of(floor).describe()
            inner = described[3] if len(described) > 3 else {}
            options |= inner if isinstance(inner, dict) else {}
        elif isinstance(version := getattr(floor, "version", None), str):
            options["version"] = version
        plain = (self.name, self.threshold, self.hard)
        return (*plain, options) if options else plain

    def check(self, claim: Claim, context: JudgingContext) -> FloorCheck:
        """Runs the floor. A floor that raises, or gives no score between 0 and 1, has failed."""
        try:
            finding = self.floor.check(claim, context)
            if finding is CLEAN:
                return self.clean
            raw_score, reason = finding
        except Exception as error:  # noqa: BLE001  # A floor is anybody's code; its failure is a finding.
            code = error.code if isinstance(error, StandfastError) else type(error).__name__
            return self._error(f"error: the floor could not judge ({code})")
        score = _score(raw_score)
        if score is None:
            return self._error(
                f"error: the floor gave no score between 0 and 1, but a {type(raw_score).__name__}"
            )
        hard = self.hard and not isinstance(finding, NeedsReview)
        return _found(self.clean, score, score >= self.threshold, hard, _printable(reason) or None)

    def _error(self, problem: str) -> FloorCheck:
        return _found(self.clean, 0.0, False, self.hard, _printable(problem))


# Most claims get the same few findings.
@lru_cache(maxsize=1 << 10)
def _found(clean: FloorCheck, score: float, passed: bool, hard: bool, reason: str | None) -> FloorCheck:
    return msgspec.structs.replace(clean, score=score, passed=passed, hard=hard, reason=reason)


def _configured(floor: Floor, options: Mapping[str, object]) -> Floor | None:
    """The floor with its options changed, or None if it is switched off."""
    fields = {field.name: field for field in _options_of(floor)}
    others = ("enabled", *ALLOWING_OPTIONS)
    changes = {name: value for name, value in options.items() if name not in others}
    for name, value in changes.items():
        if name not in fields:
            problem = f"{floor.name} has no option {name!r:.80}; it has {', '.join([*others, *fields])}"
            raise InvalidValue(what="Floor", problem=problem)
        kind = type(getattr(floor, name))
        if type(value) is not kind and not (kind is float and type(value) is int):
            problem = f"option {name} of {floor.name} must be of type {kind.__name__}, not {value!r:.80}"
            raise InvalidValue(what="Floor", problem=problem)
    enabled = options.get("enabled", True)
    if type(enabled) is not bool:
        raise InvalidValue(
            what="Floor", problem=f"option enabled of {floor.name} must be true or false, not {enabled!r:.80}"
        )
    if not enabled:
        return None
    if changes:
        floor = dataclasses.replace(floor, **changes)  # type: ignore[type-var]  # Only dataclasses have options.
    return with_allowances(floor, dict(options))


def load_floor(name: str, entry_point: object) -> Floor:
    """The floor that an entry point names: ``module:name`` of a floor, or of a class or function that makes
    one.

    Raises:
        InvalidValue: It can't be loaded, or has another name.
    """
    what = f"entry_point of {name:.80}"
    module, colon, attribute = entry_point.partition(":") if isinstance(entry_point, str) else ("", "", "")
    if not (module and colon and attribute):
        problem = f"it must be 'module:name', such as 'my_floors:OwnerFloor', not {entry_point!r:.80}"
        raise InvalidValue(what=what, problem=problem)
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        floor = (
            found() if (callable(found) and not hasattr(found, "check")) or isinstance(found, type) else found
        )
    except Exception as error:  # A floor is anybody's code.
        problem = (
            f"can't load {entry_point!r:.80} ({type(error).__name__}: {error!s:.200}); is it installed, or on"
            " PYTHONPATH?"
        )
        raise InvalidValue(what=what, problem=problem) from error
    checked = CheckedFloor.of(floor)
    if checked.name != name:
        problem = f"the floor's name is {checked.name}; write [floors.{checked.name}]"
        raise InvalidValue(what=what, problem=problem)
    return checked.floor


def _options_of(floor: object) -> list["dataclasses.Field[Any]"]:
    """What settings can change of a floor, apart from switching it off: the fields of its dataclass but the
    name.
    """
    fields = dataclasses.fields(floor) if dataclasses.is_dataclass(floor) else ()
    return [field for field in fields if field.init and field.name != "name"]


def _sort_key(name: str) -> tuple[int, str]:
    numbered = _NUMBERED_NAME.match(name)
    return (int(numbered[1]) if numbered else 10**6, name)


def _score(value: object) -> float | None:
    """A score as evidence stores it, rounded as json-v1 rounds; None if it is no number from 0 to 1."""
    if type(value) is float:
        number = value
    else:
        if isinstance(value, bool) or not isinstance(value, Real):
            return None
        try:
            number = float(value)
        except (OverflowError, TypeError, ValueError):
            return None
    # Adding zero turns -0.0 into 0.0. NaN is not between any numbers.
    return round(number, FLOAT_DECIMALS) + 0.0 if 0 <= number <= 1 else None


def _printable(reason: object) -> str:
    """A reason that can be stored: text of bounded length without unprintable characters."""
    if not isinstance(reason, str):
        return "no reason given"
    reason = as_of_unicode_14(reason[:_MAX_REASON_CHARS])[:_MAX_REASON_CHARS]
    return reason if reason.isprintable() else "".join(char if char.isprintable() else "?" for char in reason)


ALLOWING_OPTIONS: Final = ("allow", "allow_scopes", "allow_sources")
_MAX_ALLOWANCES: Final = 200
_MAX_PATTERN_CHARS: Final = 500


@dataclass(frozen=True, kw_only=True)
class AllowingFloor:
    """A floor with allow-lists. ``FloorRegistry.configured`` makes it of the options in the settings."""

    floor: Floor
    allow: tuple[str, ...] = ()
    allow_scopes: tuple[str, ...] = ()
    allow_sources: tuple[str, ...] = ()
    _patterns: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for option in ALLOWING_OPTIONS:
            given = getattr(self, option)
            if len(given) > _MAX_ALLOWANCES or not all(isinstance(one, str) and one for one in given):
                self._refuse(option, f"it must be a list of at most {_MAX_ALLOWANCES} non-empty strings")
        for scope in self.allow_scopes:
            checked_scope(scope, what=f"allow_scopes of {self.floor.name}")
        for source in self.allow_sources:
            if not all(part.strip() for part in source.partition(":")[::2]):
                self._refuse("allow_sources", f"{source!r:.80} must be KIND:ID, such as doc:handbook*")
        object.__setattr__(self, "_patterns", tuple(self._compiled(one) for one in self.allow))

    def _compiled(self, pattern: str) -> re.Pattern[str]:
        if len(pattern) > _MAX_PATTERN_CHARS:
            self._refuse("allow", f"a pattern has at most {_MAX_PATTERN_CHARS} characters")
        try:
            return re.compile(pattern)
        except re.error as error:
            self._refuse("allow", f"{pattern!r:.80} is no regular expression: {error}")
        raise AssertionError("unreachable")

    def _refuse(self, option: str, problem: str) -> None:
        raise InvalidValue(what=f"option {option} of {self.floor.name}", problem=problem)

    @property
    def name(self) -> str:
        """The name of the floor."""
        return self.floor.name

    @property
    def threshold(self) -> float:
        """The threshold of the floor."""
        return self.floor.threshold

    @property
    def hard(self) -> bool:
        """Whether the floor is hard."""
        return self.floor.hard

    def check(self, claim: Claim, context: JudgingContext) -> tuple[float, str]:
        """What the floor finds; if it fails and an allowance applies, a pass that says so."""
        finding = self.floor.check(claim, context)
        score, reason = finding
        if score >= self.threshold and not isinstance(finding, NeedsReview):
            return finding
        allowed = self._allowed_by(claim, context)
        return finding if allowed is None else Finding(1.0, f"allowed by {allowed}: {reason}")

    def _allowed_by(self, claim: Claim, context: JudgingContext) -> str | None:
        record = claim.record
        for scope in self.allow_scopes:
            if is_within(record.scope, scope):
                return f"allow_scopes {scope}"
        kind, _, name = source_key(record.source).partition(" ")
        for source in self.allow_sources:
            if kind and fnmatch.fnmatchcase(f"{kind}:{name}", source.strip().lower()):
                return f"allow_sources {source}"
        text = record.text
        for pattern in self._patterns:
            text = pattern.sub(" ", text)
        if text == record.text:
            return None
        if not text.strip():
            return "allow"
        rest = Claim(
            record=msgspec.structs.replace(record, text=text), role=claim.role, given_tags=claim.given_tags
        )
        finding = self.floor.check(rest, context)
        passes = finding[0] >= self.threshold and not isinstance(finding, NeedsReview)
        return "allow" if passes else None


def unwrapped(floor: Floor) -> Floor:
    """The floor itself, without its allow-lists."""
    return floor.floor if isinstance(floor, AllowingFloor) else floor


def with_allowances(floor: Floor, options: dict[str, object]) -> Floor:
    """The floor with the allow-lists among these options, if there are any."""
    lists: dict[str, tuple[str, ...]] = {}
    for name in ALLOWING_OPTIONS:
        given = options.get(name)
        if given is None:
            continue
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise InvalidValue(
                what="Floor", problem=f"option {name} of {floor.name} must be a list of strings"
            )
        lists[name] = tuple(given)
    return AllowingFloor(floor=floor, **lists) if lists else floor
