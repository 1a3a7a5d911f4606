"""The artifact: its schema and its reader agree, and whatever it is handed ends in a trace or a typed
error.
"""

import json
from random import Random
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.errors import TraceError
from standfast.limits import MAX_TRACE_BYTES, SAFE_INTEGER
from standfast.traces.artifact import VERSIONS, Trace
from standfast.traces.equivalence import ClaimVerdict, compare_artifacts
from standfast.traces.shapes import Shape, output_shape_hash
from tests.figures import Figures
from tests.json_values import values
from tests.raising import raises_code
from tests.traces.fixture_files import base, changed
from tests.traces.schema_files import EXAMPLE_SHAPES, ROOTS, file_of, schema, text

VALIDATORS = {name: jsonschema.Draft202012Validator(schema(name)) for name in ROOTS}
TRACES = VALIDATORS["memory.determinism_trace.v1"]


@pytest.mark.parametrize("name", ROOTS)
def test_the_committed_schemas_are_those_of_the_code_and_are_schemas(name: str) -> None:
    committed = file_of(name).read_text(encoding="utf-8")

    assert committed == text(name), "run: make schemas"
    jsonschema.Draft202012Validator.check_schema(json.loads(committed))


def test_the_schema_holds_the_contracts_three_examples_and_more_with_their_hashes() -> None:
    examples = schema("memory.determinism_trace.v1")["$defs"]["Output"]["examples"]
    shapes = [example["output_shape"] for example in examples]

    assert {"type": "text", "sections": ("intro", "body", "conclusion")} in shapes
    assert {
        "type": "plan",
        "steps": ({"id": 1, "action": "analyze"}, {"id": 2, "action": "generate"}),
    } in shapes
    assert [example["output_type"] for example in examples] == [
        "text",
        "plan",
        "code_patch",
        "json",
        "table",
        "choice",
        "refusal",
    ]
    assert [example["output_shape_hash"] for example in examples] == [
        output_shape_hash(shape) for shape in EXAMPLE_SHAPES
    ]


def test_the_hashes_of_the_contracts_examples_never_change() -> None:
    """Golden: other implementations, and traces that were written before, hold them."""
    assert [output_shape_hash(shape) for shape in EXAMPLE_SHAPES[:3]] == GOLDEN


GOLDEN = [
    "0406a740426b3e3f6dd5c35fa96dab2a51bf0faa4a548b4104f1bbe9ccefd5c1",
    "0875ccdf0d11fca3c0ce58164d7332456fd03bbeb3e3ef1d9ebf20328610a491",
    "449e2fae6075334af339ef4309aada5e3826f6232171f67e7de1f380867435c5",
]


def _struct_accepts(document: Any) -> bool:
    """Whether the reader takes it, its hash apart, which no schema can check."""
    try:
        Trace.from_document(document)
    except TraceError as error:
        return error.code == "damaged_trace"
    return True


def _mangled(document: Any, dice: Random) -> Any:
    """A copy with one member somewhere dropped, added, doubled or given another value."""
    nodes: list[Any] = []
    waiting = [document]
    while waiting:
        node = waiting.pop()
        members = node.values() if isinstance(node, dict) else node
        waiting += [member for member in members if isinstance(member, dict | list)]
        nodes.append(node)
    node = dice.choice([node for node in nodes if node])
    key = dice.choice(list(node)) if isinstance(node, dict) else dice.randrange(len(node))
    match dice.randrange(4):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node[dice.choice(["extra", "index", "type", "result"])] = dice.choice(VALUES)
        case 2 if isinstance(node, list):
            node.append(node[key])
        case _:
            node[key] = dice.choice(VALUES)
    return document


# What a parsed text can hold; the parser refuses numbers beyond, before reader or schema see them.
VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        1.5,
        1.0,
        SAFE_INTEGER,
        -SAFE_INTEGER,
        "",
        "x",
        "text",
        "plan",
        "read_only",
        "json-v1",
    ),
    *(
        "x" * 256,
        "x" * 257,
        "\u0301" * 256,
        "f" * 64,
        "F" * 64,
        "f" * 64 + "\n",
        "2026-01-01T00:00:00.000000Z",
    ),
    *([], {}, [[]], {"type": "text"}, {"type": "text", "sections": []}, {"type": "json", "structure": 1}),
    *([""], ["x"], ["x"] * 257, {"a": {"b": []}}, "returned", "profile"),
]


def _check_agreement(count: int, seed: int, figures: Figures) -> None:
    dice = Random(seed)
    accepted = 0
    for _ in range(count):
        document = base()
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            document = _mangled(document, dice)
        by_struct, by_schema = _struct_accepts(document), TRACES.is_valid(document)
        accepted += by_struct
        assert by_struct == by_schema, (seed, by_struct, list(TRACES.iter_errors(document))[:2], document)
    figures("artifacts mangled", documents=count, still_valid=accepted)
    assert 0 < accepted < count


def test_reader_and_schema_agree_on_mangled_artifacts(figures: Figures) -> None:
    _check_agreement(250, 20260101, figures)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_reader_and_schema_agree_on_many_mangled_artifacts(seed: int, figures: Figures) -> None:
    _check_agreement(5_000, seed, figures)


@pytest.mark.parametrize("field", VERSIONS)
def test_another_version_is_told_as_such(field: str) -> None:
    with raises_code("trace_version", match=field):
        Trace.from_document(changed(lambda document: document.update({field: "v99"})))


def test_an_edited_artifact_is_found_out() -> None:
    document = base() | {"workflow_id": "other"}

    with raises_code("damaged_trace"):
        Trace.from_document(document)


def test_spaces_and_key_order_do_not_matter_to_the_reader() -> None:
    document = base()
    shuffled = json.dumps(dict(reversed(list(document.items()))), indent=4)

    assert Trace.read(shuffled) == Trace.from_document(document)


HOSTILE: dict[str, bytes | str] = {
    "nothing": b"",
    "no JSON": b"{",
    "no object": b"[]",
    "a number": b"1",
    "no UTF-8": b"\xff\xfe{}",
    "a byte-order mark": b"\xef\xbb\xbf{}",
    "a key twice": b'{"run_id": "a", "run_id": "b"}',
    "NaN": b'{"run_id": NaN}',
    "a huge number": b'{"run_id": ' + b"9" * 100_000 + b"}",
    "a lone surrogate": b'{"run_id": "\\ud800"}',
    "deep arrays": b"[" * 5_000_000,
    "deep objects": b'{"a":' * 1_000_000,
    "deep and closed": b'{"events":' + b"[" * 200 + b"]" * 200 + b"}",
    "many quotes": b'[[],[],"' + b'\\"' * 4_000_000,
    "too large": b'{"run_id": "' + b"x" * MAX_TRACE_BYTES + b'"}',
    "an empty object": b"{}",
    "a version of the wrong type": b'{"determinism_trace_schema_version": {"a": []}}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_artifact_ends_in_a_typed_error_and_a_rejected_claim(name: str) -> None:
    with pytest.raises(TraceError) as refused:
        Trace.read(HOSTILE[name])

    assert refused.value.code in ("invalid_trace", "trace_version")
    assert compare_artifacts(HOSTILE[name], b"").verdict is ClaimVerdict.REJECTED


@settings(max_examples=settings().max_examples // 2)
@given(values | st.dictionaries(st.sampled_from(list(base())), values, max_size=18))
def test_any_json_value_ends_in_a_trace_or_a_typed_error(value: Any) -> None:
    with pytest.raises(TraceError):
        Trace.from_document(value)


@settings(max_examples=100)
@given(st.integers(0, 6_000), st.integers(0, 255))
def test_a_flipped_byte_never_passes_unseen(place: int, byte: int) -> None:
    text = bytearray(Trace.from_document(base()).as_bytes())
    place %= len(text)
    if text[place] == byte:
        return
    text[place] = byte

    with pytest.raises(TraceError):
        Trace.read(bytes(text))


@pytest.mark.parametrize("shape", EXAMPLE_SHAPES, ids=lambda shape: type(shape).__name__)
def test_every_shape_keeps_to_its_schema_and_reads_back(shape: Shape) -> None:
    plain = json.loads(json.dumps(shape.as_json()))
    back: Shape = msgspec.convert(plain, Shape)

    VALIDATORS["memory.output_shape.v1"].validate(plain)
    assert back == shape
