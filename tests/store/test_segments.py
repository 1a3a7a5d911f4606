"""Segments of derived indexes: every backend puts, reads and drops them alike, and erasing a record takes its
words out of what covers it.
"""

import threading
from pathlib import Path

import pytest

from standfast import Memory
from standfast.recall.index.segment import Segment, expanded
from standfast.recall.index.upkeep import problems_of_index
from standfast.store.protocol import SegmentHead
from standfast.store.store import Store
from tests.recall.histories import apply_writes, check, shrink_segments
from tests.store.builders import commit, expire, merge, sqlite_store, write
from tests.store.conftest import Opener

PARTS = {"columns": b"\x00\xff", "post/0": b"refunds"}


def head(name: str, first: int, last: int, *, band: str = "LEDGER", namespace: str = "tests") -> SegmentHead:
    return SegmentHead(name, namespace, band, "a", first, last, 3, 9)


def names(store: Store) -> list[str]:
    return [one.segment_id for one in store.segments.heads("tests")]


def test_a_segment_is_put_whole_read_by_its_parts_and_dropped(store: Store) -> None:
    table = store.segments
    assert table.put(head("s1", 1, 5), PARTS, replaces=(), at=0)
    assert table.put(head("s2", 6, 9), PARTS, replaces=(), at=0)
    assert table.put(head("s3", 1, 5, band="VAULT"), PARTS, replaces=(), at=0)
    assert table.put(head("s4", 1, 5, namespace="other"), {}, replaces=(), at=0)

    assert table.heads() == [
        head("s4", 1, 5, namespace="other"),
        head("s1", 1, 5),
        head("s2", 6, 9),
        head("s3", 1, 5, band="VAULT"),
    ]
    assert names(store) == ["s1", "s2", "s3"]
    assert table.parts([("s1", "post/0"), ("s1", "none"), ("s9", "columns")]) == {
        ("s1", "post/0"): b"refunds"
    }
    table.drop(["s1", "s9"])
    assert names(store) == ["s2", "s3"]
    assert table.parts([("s1", "post/0"), ("s2", "columns")]) == {("s2", "columns"): b"\x00\xff"}


def test_segments_never_overlap_and_replace_only_what_is_there(store: Store) -> None:
    table = store.segments
    assert table.put(head("s1", 1, 5), PARTS, replaces=(), at=0)
    assert table.put(head("s2", 6, 9), PARTS, replaces=(), at=0)

    assert not table.put(head("s3", 5, 5), PARTS, replaces=(), at=0)
    assert not table.put(head("s3", 1, 9), PARTS, replaces=["s1"], at=0)
    assert not table.put(head("s3", 1, 9), PARTS, replaces=["s1", "s2", "s0"], at=0)
    assert names(store) == ["s1", "s2"]
    assert table.put(head("s3", 1, 9), PARTS, replaces=["s1", "s2"], at=0)
    assert names(store) == ["s3"]


def test_erasing_a_record_drops_what_covers_it_and_refuses_what_was_made_before(store: Store) -> None:
    table, key = store.segments, "LEDGER/shared//a"
    store.commit(commit("r1", write(key), write("VAULT/shared//a"), write("said/shared//x")))
    store.commit(commit("r2", write("LEDGER/shared//b")))
    store.commit(commit("r3", merge(key, "y"), at=2))
    for one in (head("s1", 1, 1), head("s2", 2, 2), head("s3", 3, 3), head("v1", 1, 3, band="VAULT")):
        assert table.put(one, PARTS, replaces=(), at=3)
    store.commit(commit("r4", expire("said/shared//x", erases="asked for"), at=3))
    assert (len(names(store)), table.last_erasure("tests")) == (4, 0)
    store.commit(commit("r5", expire(key, erases="asked for"), at=4))

    assert names(store) == ["s2", "v1"]
    assert (table.last_erasure("tests"), table.last_erasure("other")) == (5, 0)
    assert not table.put(head("s1", 1, 1), PARTS, replaces=(), at=4)
    assert table.put(head("s1", 1, 1), PARTS, replaces=(), at=5)
    assert list(store.verify()) == []


def test_recall_over_segments_gives_what_the_records_give(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_segments(monkeypatch)
    store = opener()
    memory = Memory(store)
    for number in range(14):
        fact = {
            "name": f"n{number % 5}",
            "scope": ("shared", "user/ada")[number % 2],
            "band": ("LEDGER", "LEDGER", "VAULT")[number % 3],
            "words": ["refunds", f"w{number}"],
            "position": number % 3,
            "tag": "eu",
            "plan": number % 2,
            "act": "forget" if number == 10 else "write",
        }
        apply_writes(store, number, [fact])
        memory.reader.after_commit(store.head())
    question = {"query": "refunds w3", "scopes": ["shared", "user/ada"], "bands": ("VAULT", "LEDGER")}

    assert store.segments.heads("default")
    check(store, [memory, Memory(opener())], {**question, "where": {}})
    check(store, [Memory(opener())], {**question, "where": {"metadata": {"plan": 1}}})
    assert list(problems_of_index(store)) == []


def contents(store: Store) -> dict[str, bytes]:
    """Every part of every segment, expanded."""
    found: dict[str, bytes] = {}
    for one in store.segments.heads():
        segment = Segment(one, store.segments.parts(Segment.needed([one])))
        named = [*Segment.needed([one]), *segment.all_parts()]
        stored = store.segments.parts(named)
        found |= {f"{one.segment_id}/{name[1]}": expanded(name, stored) for name in named}
    return found


def test_forgetting_takes_words_out_of_segments_and_drops_none(opener: Opener) -> None:
    store = opener()
    memory = Memory(store)
    for number in range(150):
        memory.remember(f"The xylophonist mo{number}del plays at noon.", subject=f"note/{number}")
    memory.reader.index.upkeep.rebuild()
    before = store.segments.heads()
    other = Memory(opener())
    assert "mo7del" in other.recall("mo7del xylophonist").text
    memory.forget("note/7", reason="asked for")
    memory.forget("note/0", reason="asked for")

    assert store.segments.heads() == before
    parts = contents(store)
    for word in (b"mo7del", b"mo0del", b"note/7\n", b"note/0\n"):
        assert not any(word in part for part in parts.values())
    assert any(b"mo8del" in part for part in parts.values())
    assert list(problems_of_index(store)) == []
    for one in (memory, other, Memory(opener())):
        assert "mo7del" not in one.recall("mo7del xylophonist").text
        assert "mo8del" in one.recall("mo8del xylophonist").text
    memory.reader.index.upkeep.rebuild()
    assert other.recall("xylophonist plays") == memory.recall("xylophonist plays")


def test_a_block_whose_words_are_all_erased_is_passed_over(opener: Opener) -> None:
    store = opener()
    memory = Memory(store)
    for number in range(40):
        memory.remember(f"word{number} " * 2 + "in a note.", subject=f"note/{number}", scope="user/ada")
    memory.reader.index.upkeep.rebuild()
    memory.forget(scope="user/ada", reason="asked for")
    memory.remember("Zebras are not in the segment.", scope="user/ada")

    assert not any(b"word" in part for part in contents(store).values())
    assert "Zebras" in memory.recall("zebras note", scope="user/ada").text
    assert "word1" not in Memory(opener()).recall("word1 note", scope="user/ada").text
    assert list(problems_of_index(store)) == []


def test_a_merge_leaves_erased_rows_out(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opener()
    memory = Memory(store)
    for number in range(20):
        memory.remember(f"Fact fa{number}ct is known.", subject=f"note/{number}")
        if number % 3 == 2:
            memory.reader.index.upkeep.fill(whole=True)
    memory.forget("note/4", reason="asked for")
    shrink_segments(monkeypatch)
    monkeypatch.setattr("standfast.recall.index.upkeep.MAX_SEGMENT_ROWS", 1 << 10)
    monkeypatch.setattr("standfast.recall.index.upkeep._LEVELS", (1 << 9, 1 << 10))
    before = len(store.segments.heads())
    memory.reader.index.upkeep.fill(whole=True)

    assert len(store.segments.heads()) < before
    assert not any(b"fa4ct" in part for part in contents(store).values())
    assert list(problems_of_index(store)) == []


def test_a_damaged_segment_is_dropped_by_an_erasure_that_it_covers(opener: Opener) -> None:
    store = opener()
    memory = Memory(store)
    for number in range(10):
        memory.remember(f"Fact fa{number}ct is known.", subject=f"note/{number}")
    memory.reader.index.upkeep.rebuild()
    (one,) = (one for one in store.segments.heads() if one.rows)
    parts = dict.fromkeys(("columns", "tables", "blocks", "gone", "crc"), b"damaged")
    assert store.segments.put(one, parts, replaces=[one.segment_id], at=store.head())
    memory.forget("note/4", reason="asked for")

    assert not any(one.rows for one in store.segments.heads())
    assert "fa3ct" in memory.recall("fa3ct").text


def test_no_byte_of_an_erased_word_stays_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = sqlite_store(path)
    memory = Memory(store)
    for number in range(40):
        memory.remember(f"The xylophonist number {number} plays at noon.", subject=f"note/{number}")
    memory.reader.index.upkeep.rebuild()
    (segment,) = (one for one in store.segments.heads() if one.rows)
    posting = store.segments.parts([(segment.segment_id, "post/0")])[segment.segment_id, "post/0"]
    assert posting[:40] in path.read_bytes() + path.with_name("store.db-wal").read_bytes()
    memory.forget("note/7", reason="asked for")

    files = [one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()]
    assert not any(posting[:40] in content for content in files)
    assert all(b"number 7 " not in (one.content or b"") for one in store.scan("default"))
    block = contents(store)[f"{segment.segment_id}/post/0"]
    assert (b"\n6\n" in block, b"\n7\n" in block) == (True, False)
    store.close()


def test_the_first_write_after_forgets_and_a_crash_makes_no_segment_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured, that was 4 s of CPU at 57,000 snapshots."""
    store = sqlite_store(tmp_path / "store.db")
    memory = Memory(store)
    for number in range(30):
        memory.remember(f"Fact fa{number}ct is known.", subject=f"note/{number}")
    memory.reader.index.upkeep.rebuild()
    memory.forget("note/4", reason="asked for")
    store.close()  # As a crash does, without closing the memory.
    again = sqlite_store(tmp_path / "store.db")
    derived: list[object] = []

    def noted(*given: object) -> list[object]:
        derived.append(given)
        return []

    monkeypatch.setattr("standfast.recall.index.upkeep.IndexUpkeep.derived", noted)
    after = Memory(again)
    after.remember("Something else.")
    after.recall("fa3ct")

    assert derived == []
    again.close()


def test_a_copy_of_a_store_has_no_segments_and_answers_alike(store: Store, tmp_path: Path) -> None:
    memory = Memory(store)
    memory.remember("EU refunds take 14 days.", subject="policy/eu")
    memory.reader.index.upkeep.rebuild()
    copy = sqlite_store(tmp_path / "copy.db")
    store.backup_to(copy)

    assert store.segments.heads()
    assert copy.segments.heads() == []
    assert Memory(copy).recall("refunds") == memory.recall("refunds")
    copy.close()


def test_one_of_many_writers_puts_a_segment(opener: Opener) -> None:
    stores = [opener(), opener()]
    put: list[bool] = []

    def work(store: Store, name: str) -> None:
        put.append(store.segments.put(head(name, 1, 5), PARTS, replaces=(), at=0))

    threads = [threading.Thread(target=work, args=(one, f"s{n}")) for n, one in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(put) == [False, True]
    assert len(names(stores[0])) == 1
