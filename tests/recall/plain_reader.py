"""A second, plain implementation of ``memory.read``: every line is parsed, hashed, scored and sorted.

It shares canonical JSON with the real one and nothing else. Property tests hold the two to the same bytes,
and the benchmark measures what the plain way costs.
"""

import hashlib
import json
import math
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from standfast.errors import NotCanonical
from standfast.records.canon import canonical_bytes, fingerprint

MIB = 1 << 20
NAMES = ("memory_id", "ts_utc", "text", "tags", "refs")


class Pairs:
    """A JSON object as it was written: with every key, as often as it stands there."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs

    def get(self, name: str) -> Any:
        """The one value of a key."""
        return next((value for key, value in self.pairs if key == name), None)

    def times(self, name: str) -> int:
        """How often a key stands."""
        return sum(key == name for key, _ in self.pairs)


def plain(value: Any) -> Any:
    """The value with dicts; ``ValueError`` if a key stands twice."""
    if isinstance(value, Pairs):
        if len({key for key, _ in value.pairs}) < len(value.pairs):
            raise ValueError("a key stands twice")
        return {key: plain(member) for key, member in value.pairs}
    return [plain(member) for member in value] if isinstance(value, list) else value


def depth(text: str) -> int:
    """How deep brackets outside of strings are nested; 0 for a text that has too few of them for that to
    matter.
    """
    if text.count("[") + text.count("{") <= 128:
        return 0
    deepest = level = 0
    for char in re.sub(r'"(\\.|[^"\\])*"', "", text, flags=re.DOTALL):
        level += (char in "[{") - (char in "]}")
        deepest = max(deepest, level)
    return deepest


def refuse(name: str) -> Any:
    """NaN and infinities are no JSON."""
    raise ValueError(name)


def moment(text: str | None) -> datetime | None:
    """The instant that a timestamp names."""
    shape = (
        r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(:\d\d)?((?<=:\d\d:\d\d)[.,]\d+)?(Z|z|[+-]\d\d(?::?\d\d)?)?)?"
    )
    found = re.fullmatch(shape, text or "", re.ASCII)
    if found is None:
        return None
    day, clock, seconds, fraction, zone = found.groups()
    zone = "+00:00" if zone in (None, "Z", "z") else zone
    zone = f"{zone[:3]}:{zone[-2:] if len(zone) > 3 else '00'}"
    if (clock or "") >= "24" or zone[1:3] > "23" or zone[4:] > "59":
        return None
    digits = (fraction or ".0")[1:7].ljust(6, "0")
    try:
        named = datetime.fromisoformat(f"{day}T{clock or '00:00'}{seconds or ':00'}.{digits}{zone}")
        return named.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def candidate(line: bytes, path: str) -> dict[str, Any] | None:
    """The record of a line, in normal form; None if it holds none."""
    if len(line) > MIB:
        return None
    try:
        text = line.decode()
        if depth(text) > 128:
            return None
        value = json.loads(
            text,
            object_pairs_hook=Pairs,
            parse_constant=refuse,
            parse_int=lambda digits: int(digits) if len(digits) < 20 else math.inf,
        )
        if not isinstance(value, Pairs) or any(value.times(name) > 1 for name in NAMES):
            return None
        memory_id, stamp, text, tags, refs = (value.get(name) for name in NAMES)
        tags, refs = tags or ([] if tags is None else tags), refs or ([] if refs is None else refs)
        if not (isinstance(memory_id, str) and isinstance(text, str) and isinstance(stamp, str | None)):
            return None
        if not (isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)):
            return None
        if not (isinstance(refs, list) and all(isinstance(ref, Pairs) for ref in refs)):
            return None
        instant = moment(stamp)
        normal = {
            "memory_id": memory_id,
            "ts_utc": stamp if instant is None else instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27),
            "text": text,
            "tags": sorted({tag.lower() for tag in tags}),
            "refs": plain(refs),
        }
        return normal | {"record_hash": fingerprint(normal), "instant": instant, "store_path": path}
    except (ValueError, NotCanonical):
        return None


def bad(line: bytes, path: str) -> dict[str, Any]:
    """What is told of a line that holds no record."""
    memory_id = ""
    try:
        if len(line) <= MIB and depth(line.decode()) <= 128:
            value = json.loads(
                line.decode(), object_pairs_hook=Pairs, parse_constant=refuse, parse_int=lambda _: 0
            )
            if isinstance(value, Pairs) and value.times("memory_id") == 1:
                found = value.get("memory_id")
                memory_id = found if isinstance(found, str) and canonical_bytes(found) else ""
    except (ValueError, NotCanonical):
        pass
    return _dropped(memory_id, hashlib.sha256(line).hexdigest(), path, "invalid_record_schema")


def _dropped(memory_id: str, digest: str, path: str, reason: str) -> dict[str, Any]:
    return {"memory_id": memory_id, "record_hash": digest, "store_path": path, "reason": reason}


def lines_of(path: str) -> list[bytes]:
    """The lines of a file that are not blank."""
    content = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf")
    lines = [line.removesuffix(b"\r") for line in content.split(b"\n")]
    return [line for line in lines if line.strip()]


def read_plainly(request: dict[str, Any]) -> dict[str, Any]:
    """The package for a request as the contract writes it in JSON."""
    scoring, budget = request.get("scoring", {}), request["budget"]
    query = " ".join(request["query"].split()).lower()
    given = scoring.get("query_terms")
    words = [word for word in query.split() if len(word) >= 2]
    terms = list(dict.fromkeys(words if given is None else (" ".join(t.split()).lower() for t in given)))
    terms = [term for term in terms if term]
    trust = request.get("trust_filter", {})
    denied = _denied(trust)
    found: list[dict[str, Any]] = []
    dropped: list[dict[str, Any]] = []
    refused: list[dict[str, Any]] = []
    for path in sorted({os.path.normpath(path) for path in request["store_paths"]}):
        for line in lines_of(path):
            record = candidate(line, path)
            if record is None:
                dropped.append(bad(line, path))
            elif not denied.isdisjoint(
                {("memory_id", record["memory_id"]), ("record_hash", record["record_hash"])}
            ):
                refused.append(_dropped(record["memory_id"], record["record_hash"], path, "trust_denied"))
            else:
                record["score"] = _score(record, terms, scoring, moment(request.get("now_utc")))
                found.append(record)
    found.sort(key=_order)
    most = budget["max_excerpt_tokens"]
    each = min(budget.get("per_item_max_excerpt_tokens", most), most)
    selected: list[dict[str, Any]] = []
    used, reason = 0, ""
    for record in found:
        excerpt = record["text"].strip()
        while len(excerpt.encode()) > each * 4:
            excerpt = excerpt[: each * 4][:-1] if len(excerpt) <= each * 4 else excerpt[: each * 4]
        cost = math.ceil(len(excerpt.encode()) / 4)
        if not reason and len(selected) == budget.get("max_items", 50):
            reason = "max_items_reached"
        if not reason and used + cost > most:
            reason = "budget_exhausted"
        if reason:
            refused.append(_dropped(record["memory_id"], record["record_hash"], record["store_path"], reason))
            continue
        used += cost
        shown = {name: record[name] for name in ("memory_id", "record_hash", "store_path", "score")}
        selected.append(shown | {"excerpt": excerpt, "excerpt_tokens": cost})
    dropped += refused
    reasons = ("invalid_record_schema", "trust_denied", "budget_exhausted", "max_items_reached")
    counts = {name: sum(item["reason"] == name for item in dropped) for name in reasons}
    package = {
        "query": {"raw": request["query"], "query_hash": hashlib.sha256(query.encode()).hexdigest()},
        "budget": {
            "max_excerpt_tokens": most,
            "used_excerpt_tokens": used,
            "remaining_excerpt_tokens": most - used,
            "per_item_max_excerpt_tokens": each,
            "max_items": budget.get("max_items", 50),
        },
        "selection": {
            "selected": selected,
            "dropped": counts if request.get("dropped") == "counts" else dropped,
        },
        "controller_version": "phase6-v1",
    }
    digest = hashlib.sha256(canonical_bytes(package, limit_bytes=1 << 32)).hexdigest()
    return package | {"package_hash": digest}


def _denied(trust: dict[str, Any]) -> set[tuple[str, str]]:
    if "trust_snapshot_path" not in trust:
        return set()
    marks = [json.loads(line) for line in lines_of(trust["trust_snapshot_path"])]
    denials = trust.get("deny_classifications", ["malicious"])
    return {
        (name, mark[name])
        for mark in marks
        if mark["classification"] in denials
        for name in ("memory_id", "record_hash")
        if name in mark
    }


def _score(record: dict[str, Any], terms: list[str], scoring: dict[str, Any], now: datetime | None) -> float:
    wording = " ".join(record["text"].split()).lower()
    score: float = sum(term in wording for term in terms)
    if scoring.get("enable_tag_overlap", True):
        score += 0.5 * sum(term in record["tags"] for term in terms)
    if scoring.get("enable_recency_weight", False) and now is not None and record["instant"] is not None:
        age_days = max(now - record["instant"], timedelta()) / timedelta(days=1)
        score += 0.5 ** (age_days / scoring.get("recency_half_life_days", 30))
    return round(score, 6)


def _order(record: dict[str, Any]) -> tuple[Any, ...]:
    instant = record["instant"]
    age = math.inf if instant is None else datetime(9999, 12, 31, tzinfo=UTC) - instant
    return (
        -record["score"],
        instant is None,
        age,
        record["store_path"],
        record["memory_id"],
        record["record_hash"],
        record["text"],
    )
