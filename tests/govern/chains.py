"""Evidence chains as the document writes them, sound and broken, made without the code that they test."""

import hashlib
import json
from typing import Any

NOW_ISO = "2025-01-15T10:30:00Z"
FLOORS = [
    {"floor": "F1_Amanah", "score": 1.0, "passed": True},
    {"floor": "F2_Truth", "score": 0.99, "passed": True},
]
LOOP: list[Any] = []
LOOP.append(LOOP)


# What a human or a rule may give before any floor has looked.
MAY_LACK_CHECKS = ("VOID", "888_HOLD", "HOLD")


def document_hash(floor_checks: Any, verdict: Any, timestamp: Any) -> str:
    """Section 4.3 of the document, letter by letter."""
    evidence = {
        "floor_checks": floor_checks,
        "verdict": verdict,
        "timestamp": timestamp,
    }
    return hashlib.sha256(json.dumps(evidence, sort_keys=True).encode()).hexdigest()


def chain(verdict: Any = "SEAL", floor_checks: Any = FLOORS, timestamp: Any = NOW_ISO) -> dict[str, Any]:
    """A chain with its right hash, whatever is in it."""
    return {
        "floor_checks": floor_checks,
        "timestamp": timestamp,
        "verdict": verdict,
        "hash": document_hash(floor_checks, verdict, timestamp),
    }


def chain_without(field: str, verdict: str) -> dict[str, Any]:
    """A chain that lacks one field."""
    return {name: value for name, value in chain(verdict).items() if name != field}


def check(**changes: Any) -> dict[str, Any]:
    """A floor check with something changed."""
    return {**FLOORS[0], **changes}


def valid_states(verdict: str) -> dict[str, Any]:
    """Chains that hold, each under a name."""
    sound = chain(verdict)
    renamed = {("evidence_hash" if name == "hash" else name): value for name, value in sound.items()}
    every_floor_field = check(threshold=0.5, hard=True, reason="no contradiction — 文")
    return {
        "valid": sound,
        "valid, evidence_hash": renamed,
        "valid, both hashes": {**sound, "evidence_hash": sound["hash"]},
        "valid, more fields": {**sound, "note": "not covered by the hash"},
        "valid, every field of a floor check": chain(verdict, [every_floor_field]),
        "valid, lower case": chain(verdict.lower()),
        "valid, offset": chain(verdict, timestamp="2025-01-15T10:30:00.123456+05:30"),
        "valid, whole score": chain(verdict, [check(score=1)]),
        "valid, failed check": chain(verdict, [check(score=0.1, passed=False)]),
        "valid, check without a score": chain(verdict, [{"floor": "F1_Amanah", "passed": True}]),
        **({"valid, no check": chain(verdict, [])} if verdict in MAY_LACK_CHECKS else {}),
    }


def forgivable_states(verdict: str) -> dict[str, Any]:
    """Chains in which something is missing or disagrees: refused in strict mode, warned of in lenient
    mode.
    """
    other = "SABAR" if verdict == "SEAL" else "SEAL"
    return {
        "None": None,
        "empty": {},
        "no floor_checks": chain_without("floor_checks", verdict),
        "no hash": chain_without("hash", verdict),
        "no timestamp": chain_without("timestamp", verdict),
        "no verdict": chain_without("verdict", verdict),
        "null timestamp": chain(verdict, timestamp=None),
        **({} if verdict in MAY_LACK_CHECKS else {"empty floor_checks": chain(verdict, [])}),
        "wrong hash": {**chain(verdict), "hash": "0" * 64},
        "hash in upper case": {**chain(verdict), "hash": chain(verdict)["hash"].upper()},
        "no hash at all": {**chain(verdict), "hash": "sha256..."},
        "hash of other checks": {**chain(verdict), "floor_checks": [check(score=0.5)]},
        "second hash differs": {**chain(verdict), "evidence_hash": "0" * 64},
        "wrong verdict": chain(other),
    }


def malformed_states(verdict: str) -> dict[str, Any]:
    """Chains that no honest judge makes: refused in either mode. Their hashes are right where they can be."""
    return {
        "a list": [chain(verdict)],
        "a string": "SEAL",
        "a number": 7,
        "floor_checks a dict": chain(verdict, {"floor": "F1_Amanah"}),
        "floor_checks a string": chain(verdict, "F1_Amanah"),
        "floor check a string": chain(verdict, ["F1_Amanah"]),
        "floor check empty": chain(verdict, [{}]),
        "floor missing": chain(verdict, [{"score": 1.0, "passed": True}]),
        "passed missing": chain(verdict, [{"floor": "F1_Amanah", "score": 1.0}]),
        "floor a number": chain(verdict, [check(floor=1)]),
        "floor empty": chain(verdict, [check(floor="")]),
        "score a string": chain(verdict, [check(score="1.0")]),
        "score a bool": chain(verdict, [check(score=True)]),
        "score above 1": chain(verdict, [check(score=1.000001)]),
        "score below 0": chain(verdict, [check(score=-0.1)]),
        "score NaN": chain(verdict, [check(score=float("nan"))]),
        "score infinite": chain(verdict, [check(score=float("inf"))]),
        "passed a number": chain(verdict, [check(passed=1)]),
        "passed a string": chain(verdict, [check(passed="true")]),
        "unknown field in a floor check": chain(verdict, [check(colour="blue")]),
        "second check malformed": chain(verdict, [check(), check(score=2)]),
        "timestamp naive": chain(verdict, timestamp="2025-01-15T10:30:00"),
        "timestamp a date": chain(verdict, timestamp="2025-01-15"),
        "timestamp no date": chain(verdict, timestamp="2025-02-30T00:00:00Z"),
        "timestamp hour 24": chain(verdict, timestamp="2025-01-15T24:00:00Z"),
        "timestamp before the calendar": chain(verdict, timestamp="0001-01-01T00:00:00+23:59"),
        "timestamp other digits": chain(verdict, timestamp="٢٠٢٥-01-15T10:30:00Z"),
        "timestamp other separator": chain(verdict, timestamp="2025-01-15x10:30:00Z"),
        "timestamp a number": chain(verdict, timestamp=1_736_937_000),
        "verdict unknown": chain("MAYBE"),
        "verdict a number": chain(888),
        "verdict a look-alike": chain(verdict.replace("S", "\u017f").replace("I", "\u0131") + "\u200b"),
        "hash a number": {**chain(verdict), "hash": 7},
        "huge number": {**chain(verdict), "note": 10**5_000},
        "lone surrogate": chain(verdict, [check(reason="\ud800")]),
        "lone surrogate in a key": chain(verdict, [check(**{"\udfff": 1})]),
        "key no string": {**chain(verdict), 7: "x"},
        "bytes": {**chain(verdict), "note": b"x"},
        "set": {**chain(verdict), "note": {1}},
    }


def monstrous_states(verdict: str) -> dict[str, Any]:
    """Chains that would keep a careless reader busy for long, or for ever: refused in either mode."""
    shared: Any = ["x"]
    for _ in range(60):
        shared = [shared, shared]
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    return {
        "huge": chain(verdict, [check()] * 100_000),
        "huge text": chain(verdict, [check(reason="x" * 1_000_000)]),
        "huge beside the evidence": {**chain(verdict), "note": "x" * 1_000_000},
        "huge once escaped": chain(verdict, [check(reason="\U0001f600" * 10_000)]),
        "many fields": {**chain(verdict), **{f"note {number}": number for number in range(100_000)}},
        "deep": {**chain(verdict), "note": deep},
        "deep but small": {**chain(verdict), "note": json.loads("[" * 200 + "]" * 200)},
        "holds itself": {**chain(verdict), "note": LOOP},
        "one list many times": {**chain(verdict), "note": shared},
    }


def short_name(value: object) -> str:
    """A test's name for a value that may be too long, or too strange, to be one itself."""
    return ascii(value[:12]) if isinstance(value, str) else type(value).__name__
