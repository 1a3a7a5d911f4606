"""The table of row kinds: a row of no kind can't be written, and ``forget`` reaches every kind that it
names.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.clock import CountedIds, ManualClock
from standfast.errors import InvalidValue
from standfast.memory import Memory
from standfast.records.rows import RULES, SYSTEM_NAMESPACE, ErasedBy, Place, RowKind, kind_of_row
from standfast.records.scopes import row_key, scoped_key
from standfast.records.vocabulary import ActionType, Band, Record
from standfast.store.commit import Commit, Write
from standfast.store.store import Store
from tests.store.builders import memory_store

ADA = "user/ada"
SCOPES = st.lists(st.sampled_from(["user", "ada", "adam", "x", "é"]), min_size=1, max_size=4).map("/".join)
TENANT_KINDS = [kind for kind in RowKind if RULES[kind].place is not Place.SYSTEM]
KINDS_THAT_STAY = {
    kind for kind in TENANT_KINDS if RULES[kind].erased_by in (ErasedBy.SIGNATURE, ErasedBy.NOTHING)
}


def _commit(store: Store, *writes: Write) -> None:
    store.commit(
        Commit.of(
            run_id=store.ids.new_id(), memory_snapshot_id=store.head(), policy_set_id="tests", writes=writes
        )
    )


def _row(kind: RowKind, scope: str, name: str, text: str) -> Write:
    """A row of a kind, with a text in it: new in its scope under its name."""
    rule, law = RULES[kind], scoped_key(Band.VAULT, scope, f"waiting-{name}")
    content: dict[str, Any] = {"text": text}
    if kind in Band.__members__ and rule.place is Place.SCOPE:
        content = Record(memory_id=name, text=text, band=Band(kind), scope=scope).as_json()
    elif rule.erased_by is ErasedBy.ITS_CONTENT:
        content |= {"key": law} if kind is RowKind.STREAM else {"proposal": {"key": law}}
    if rule.place is Place.SYSTEM:
        return Write.of(SYSTEM_NAMESPACE, row_key(kind, name), ActionType.WRITE, content)
    own = f"LEDGER/000001-{name}" if kind is RowKind.STREAM else name
    key = scoped_key(kind, scope, own) if rule.place is Place.SCOPE else row_key(kind, own)
    return Write.of("default", key, ActionType.WRITE, content)


def _contents(store: Store, namespace: str) -> dict[str, list[bytes]]:
    return {
        versions[0].key: [one.content for one in versions if one.content is not None]
        for versions in store.versions_by_key(namespace)
    }


@settings(max_examples=30, deadline=None)
@given(scope=SCOPES, other=SCOPES, versions=st.integers(1, 3))
def test_after_forget_no_byte_of_a_scope_is_left_in_a_row_of_any_kind(
    scope: str, other: str, versions: int
) -> None:
    clock = ManualClock()
    memory = Memory.open(":memory:", clock=clock, ids=CountedIds())
    other = f"other/{other}"
    for place, word in ((scope, "swordfish"), (other, "pelican")):
        rows = [_row(kind, place, word, f"The word is {word}.") for kind in TENANT_KINDS]
        _commit(memory.store, *rows)
        for _ in range(versions - 1):
            _commit(memory.store, *(msgspec.structs.replace(one, action=ActionType.MERGE) for one in rows))
    done = memory.forget(scope=scope, reason="asked for")
    left = _contents(memory.store, "default")

    assert {
        RowKind(key.partition("/")[0])
        for key, held in left.items()
        if any(b"swordfish" in one for one in held)
    } == KINDS_THAT_STAY
    assert done.rows == len(TENANT_KINDS) - len(KINDS_THAT_STAY)
    assert all(
        len([one for one in held if b"pelican" in one]) == versions
        for key, held in left.items()
        if "pelican" in key
    )


def test_a_row_of_no_kind_can_not_be_written() -> None:
    store = Memory.open(":memory:").store
    for namespace, key in (
        ("default", "note/1"),
        ("default", "said"),
        ("default", "said/shared"),
        ("default", "LEDGER/m-1"),
        ("default", "nonce/1"),
        (SYSTEM_NAMESPACE, "LEDGER/shared//m-1"),
    ):
        commit = Commit.of(
            run_id="r",
            memory_snapshot_id=0,
            policy_set_id="p",
            writes=[Write.of(namespace, key, ActionType.WRITE, "x")],
        )
        for submit in (store.commit, store.stage):
            with pytest.raises(InvalidValue, match="key is invalid: "):
                submit(commit)

    assert store.head() == 0


def test_each_kind_is_written_where_its_rule_says_and_nowhere_else() -> None:
    for kind in RowKind:
        own = _row(kind, ADA, "a", "x")
        elsewhere = "default" if own.namespace == SYSTEM_NAMESPACE else SYSTEM_NAMESPACE

        assert kind_of_row(own.namespace, own.key) is kind
        with pytest.raises(InvalidValue, match="is not where such a row is"):
            kind_of_row(elsewhere, own.key)


def test_verify_names_the_first_row_of_each_kind_that_is_none() -> None:
    store = memory_store()
    memory = Memory(store)
    memory.remember("EU refunds take 14 days.")
    _commit(store, Write.of("default", "note/1", ActionType.WRITE, "x"))
    _commit(store, Write.of("default", "note/2", ActionType.WRITE, "x"))
    _commit(store, Write.of("default", "zeal", ActionType.WRITE, "x"))
    problems = list(memory.verify())

    assert [problem.partition(" in snapshot ")[0] for problem in problems] == [
        "default/note/1",
        "default/zeal",
    ]
