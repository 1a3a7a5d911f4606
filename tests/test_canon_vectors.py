"""The golden vectors, read just as another implementation would read them."""

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from standfast.errors import NotCanonical
from standfast.records.canon import canonical_bytes, fingerprint, parse

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parent / "vectors" / "json-v1.jsonl").read_text(encoding="utf-8").splitlines()
]


def _value_of(vector: dict[str, Any]) -> object:
    if "datetime" in vector:
        return datetime.fromisoformat(vector["datetime"])
    if "text_hex" in vector:
        return parse(bytes.fromhex(vector["text_hex"]))
    if "text_repeat" in vector:
        before, filler, times, after = vector["text_repeat"]
        return parse(before + filler * times + after)
    return parse(vector["text"])


@pytest.mark.parametrize("vector", [v for v in VECTORS if "error" not in v], ids=lambda v: v["name"])
def test_an_accepted_vector_has_its_bytes_and_its_hash(vector: dict[str, Any]) -> None:
    canonical = canonical_bytes(_value_of(vector))

    assert canonical == vector.get("canonical", canonical.decode()).encode()
    assert hashlib.sha256(canonical).hexdigest() == vector["sha256"]
    assert fingerprint(_value_of(vector)) == vector["sha256"]


@pytest.mark.parametrize("vector", [v for v in VECTORS if "error" in v], ids=lambda v: v["name"])
def test_a_refused_vector_is_refused_for_its_reason(vector: dict[str, Any]) -> None:
    with pytest.raises(NotCanonical) as refusal:
        canonical_bytes(_value_of(vector))

    assert refusal.value.code == vector["error"]


def test_every_refusal_of_the_error_tree_has_a_vector() -> None:
    """The three that only a value in Python can meet are tested in test_canon.py."""
    codes = {kind.code for kind in NotCanonical.__subclasses__()} | set(NotCanonical.cases)

    assert codes - {v.get("error") for v in VECTORS} == {"canon_type"}
