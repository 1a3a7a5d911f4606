"""Canonical JSON against the reference package and against a bare orjson."""

from functools import partial
from typing import Any

import orjson
import rfc8785

from benchmarks.measure import Ratio, at_least, best_seconds, shown
from standfast.records.canon import canonical_bytes

TITLE = "Canonical JSON"
RECORD: dict[str, Any] = {
    "memory_id": "mem-000123",
    "ts_utc": "2026-01-15T10:30:00.000000Z",
    "text": "EU refunds take 14 days from the day the parcel is back, whoever pays the postage.",
    "tags": ["eu", "policy", "refunds"],
    "subject": "policy/eu-refunds",
    "score": 0.91,
    "version": 3,
    "sealed": False,
    "source": {"kind": "doc", "id": "handbook#4", "page": 12},
}
VARIANTS: dict[str, dict[str, object]] = {
    "ASCII": {},
    "accents": {"text": "Rückerstattungen in der EU dauern 14 Tage, gerechnet ab Eingang des Pakets."},
    "Chinese": {"text": "欧盟退款需要十四天，从包裹退回之日算起，无论谁支付邮费。"},
    "emoji": {"text": "EU refunds take 14 days 🎉 from the day the parcel is back."},
    "unrounded float": {"score": 0.91234567891},
}


def run() -> list[Ratio]:
    """One ratio for each kind of record."""
    ratios = []
    for name, change in VARIANTS.items():
        record = RECORD | change
        seconds = best_seconds(
            {
                "ours": partial(canonical_bytes, record),
                "rfc8785": partial(rfc8785.dumps, record),
                "orjson": partial(orjson.dumps, record, option=orjson.OPT_SORT_KEYS),
            },
            calls=2000,
        )
        detail = f"{len(canonical_bytes(record))} bytes, {seconds['ours'] * 1e6:.1f} µs"
        speedup = seconds["rfc8785"] / seconds["ours"]
        typical = name == "ASCII"
        label = f"canonical_bytes against rfc8785, {name}"
        ratios.append(at_least(label, speedup, 8, detail) if typical else shown(label, speedup, detail))
        if typical:
            ratios.append(
                shown("canonical_bytes in units of bare orjson", seconds["ours"] / seconds["orjson"])
            )
    return ratios
