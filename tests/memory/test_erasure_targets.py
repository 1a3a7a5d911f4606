"""What an erasure names, in words and row by row."""

import msgspec
import pytest

from standfast.memory.erasure_targets import ErasureIntent, ErasureTarget, PendingErasures
from standfast.records.canon import canonical_bytes
from standfast.records.requests import ForgetRequest
from standfast.records.vocabulary import ActionType, Band, Record
from standfast.store.protocol import Version

HANDBOOK = {"kind": "doc", "id": "handbook"}


def test_a_target_is_named_in_words() -> None:
    assert str(ErasureTarget(scope="user/ada")) == "scope user/ada"
    assert str(ErasureTarget(scope="*")) == "every scope"
    assert str(ErasureTarget(scope="*", source=HANDBOOK)) == "doc:handbook in every scope"
    assert str(ErasureTarget(scope="a", source=HANDBOOK)) == "doc:handbook in scope a"


def test_without_a_scope_a_source_is_erased_everywhere_and_nothing_else_beyond_the_shared_scope() -> None:
    assert ErasureTarget.of(ForgetRequest(subject="x", reason="r")) is None
    assert ErasureTarget.of(ForgetRequest(source=HANDBOOK, reason="r")) == ErasureTarget(
        scope="*", source=HANDBOOK
    )
    assert ErasureTarget.of(ForgetRequest(scope="a", source=HANDBOOK, reason="r")) == ErasureTarget(
        scope="a", source=HANDBOOK
    )
    assert ErasureTarget.of(ForgetRequest(scope="a", reason="r")) == ErasureTarget(scope="a")


@pytest.mark.parametrize(
    ("source", "is_source"),
    [
        (HANDBOOK, True),
        ({"kind": "doc", "id": "handbook#4"}, True),
        ({"kind": "doc", "id": "handbook#4#5"}, True),
        ({"kind": "doc", "id": "handbook/4"}, False),
        ({"kind": "web", "id": "handbook"}, False),
        ({"kind": "doc"}, False),
        (None, False),
    ],
)
def test_a_document_is_the_source_of_its_places(source: dict[str, str] | None, is_source: bool) -> None:
    record = Record(memory_id="m", text="t", source=source)

    assert ErasureTarget(scope="*", source=HANDBOOK).is_source_of(record) is is_source
    assert ErasureTarget(scope="*").is_source_of(record)


def row(
    key: str, snapshot: int = 3, source: dict[str, str] | None = None, *, is_erased: bool = False
) -> Version:
    record = Record(memory_id="m", text="t", source=source, band=Band.LEDGER)
    content = None if is_erased else canonical_bytes(record.as_json())
    return Version("n", key, snapshot, ActionType.WRITE, None, content)


def test_an_erasure_dooms_rows_of_its_scope_and_source_that_were_there_when_it_began() -> None:
    intent = ErasureIntent(
        erasure_id="e", namespace="n", target=ErasureTarget(scope="a"), reason="r", by="b", at="", until=3
    )
    of_source = msgspec.structs.replace(intent, target=ErasureTarget(scope="a", source=HANDBOOK))
    rows = [
        row("LEDGER/a//m"),
        row("LEDGER/a/b//m"),
        row("LEDGER/ab//m"),
        row("LEDGER/a//later", 4),
        row("VAULT/a//law"),
        row("said/a//x", is_erased=True),
        row("LEDGER/a//own", source=HANDBOOK),
        row("LEDGER/a//erased", is_erased=True),
    ]

    assert PendingErasures((intent,)).doomed(rows) == {
        "LEDGER/a//m",
        "LEDGER/a/b//m",
        "said/a//x",
        "LEDGER/a//own",
        "LEDGER/a//erased",
    }
    assert PendingErasures((of_source,)).doomed(rows) == {"said/a//x", "LEDGER/a//own", "LEDGER/a//erased"}
    assert PendingErasures(()).doomed(rows) == set()


def test_an_intent_takes_what_was_there_before_the_commit_that_stored_it() -> None:
    intent = ErasureIntent(
        erasure_id="e", namespace="n", target=ErasureTarget(scope="a"), reason="r", by="b", at=""
    )
    stored = Version("n", "forgetting/e", 8, ActionType.WRITE, None, canonical_bytes(intent.as_json()))
    known = msgspec.structs.replace(
        stored, content=canonical_bytes(msgspec.structs.replace(intent, until=5).as_json())
    )

    assert ErasureIntent.read(stored).until == 7
    assert ErasureIntent.read(known).until == 5
