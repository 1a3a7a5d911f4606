"""What is stored gives the content back byte for byte, shares what two bands share, and survives the end of
either.
"""

import hashlib
import zlib
from typing import Any

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from standfast.records.canon import canonical_bytes, fingerprint_of_bytes
from standfast.store.compression import DICTIONARY, packed, unpacked
from standfast.store.store import Store
from tests.store.builders import NAMESPACE, commit, expire, memory_store, merge, sqlite_store, write

LEDGER, ACTIVE = "LEDGER/shared//m-1", "ACTIVE/shared//m-1"


def _record(band: str, text: str = "Ada prefers answers in German.", number: int = 1) -> dict[str, Any]:
    return {"band": band, "memory_id": f"m-{number}", "text": text}


def _both(text: str = "Ada prefers answers in German.") -> list[Any]:
    return [write(LEDGER, _record("LEDGER", text)), write(ACTIVE, _record("ACTIVE", text))]


def _shown(store: Store, key: str, at: int | None = None) -> bytes | None:
    found = store.read(NAMESPACE, [key], at=at)
    return found[key].content if key in found else None


@given(st.binary(max_size=3_000))
@example(b"")
@example(b"{}")
@example(bytes(4_000))
@example(DICTIONARY)
def test_what_is_packed_comes_back_byte_for_byte(content: bytes) -> None:
    stored = packed(content)

    assert unpacked(stored) == content
    assert len(stored) <= len(content) + 1


PARTS = ('"sha256:', '"hash":"', '"memory_id":"', '"memory_id":""', "m-1", "a" * 64, "0F" * 32, '"', ".", "")


@given(st.lists(st.sampled_from(PARTS), max_size=12), st.sampled_from([LEDGER, ACTIVE, "note", "LEDGER/a//"]))
@example(['"sha256:', "a" * 64, '"hash":"', "a" * 64, '"memory_id":"', "m-1", '"'], LEDGER)
@example(['"sha256:', "0F" * 32, '"hash":"', "a" * 64, '"memory_id":"', "m-1", '"'], LEDGER)
def test_what_is_packed_under_a_key_comes_back_byte_for_byte(parts: list[str], key: str) -> None:
    content = "".join(parts).encode()

    assert unpacked(packed(content, key), key) == content


def _judged(memory_id: str) -> bytes:
    hashes = [hashlib.sha256(part.encode()).hexdigest() for part in ("content", "evidence")]
    checks = [{"floor": "content", "reason": f"sha256:{hashes[0]}"}]
    evidence = {"floor_checks": checks, "hash": hashes[1]}
    return canonical_bytes({"band": "LEDGER", "evidence": evidence, "memory_id": memory_id, "text": "Ada."})


def test_the_hashes_of_a_record_take_their_own_bytes_and_its_id_none() -> None:
    content = _judged("m-1")
    stored = packed(content, LEDGER)

    assert (stored[:1], unpacked(stored, LEDGER)) == (b"\x04", content)
    assert len(packed(content)) - len(stored) > 16
    assert packed(_judged("m-2"), LEDGER)[:1] != b"\x04", "its key has another id"
    assert unpacked(stored, "LEDGER/shared//m-2") != content, "a row that was moved does not match"


def test_the_fingerprint_of_a_note_is_not_stored_with_each_of_them(tmp_path: Any) -> None:
    store = sqlite_store(tmp_path / "store.db")
    store.commit(commit("r1", write("note", {}), write("fact", {"n": 1})))
    file = apsw.Connection(str(tmp_path / "store.db"), vfs="cksmvfs")
    stored = {row[0]: row[1] for row in file.execute("SELECT key, length(fingerprint) FROM versions")}

    assert stored == {"note": 0, "fact": 32}
    assert store.versions_of(1)[1].fingerprint == fingerprint_of_bytes(b"{}")
    assert list(store.verify()) == []
    file.execute("DROP TRIGGER versions_never_change")
    file.execute("UPDATE versions SET fingerprint = x'' WHERE key = 'fact'")
    file.close()
    assert any("tests/fact" in problem for problem in store.verify())
    store.close()


def test_the_shape_of_a_record_takes_little_room() -> None:
    content = (
        b'{"band":"LEDGER","evidence":{"floor_checks":[{"floor":"content","passed":true,"reason":"sha256:'
    )

    assert len(packed(content)) < len(content) // 4


@given(st.binary(max_size=200), st.integers(0, 199), st.integers(1, 255))
def test_a_damaged_content_is_another_one_and_never_an_error(content: bytes, place: int, mask: int) -> None:
    stored = bytearray(packed(content))
    stored[place % len(stored)] ^= mask

    assert isinstance(unpacked(bytes(stored)), bytes)
    assert unpacked(b"") == unpacked(b"\x07abc") == unpacked(b"\x01\xff\xff") == b""
    assert unpacked(b"\x02") == unpacked(b"\x03") == unpacked(b"\x03\x00{}") == b""


def test_a_small_stored_content_can_not_fill_the_memory() -> None:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -13, 6, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
    bomb = b"\x01" + deflate.compress(bytes(50 << 20)) + deflate.flush()

    assert unpacked(bomb) == b""
    assert unpacked(packed(b"x" * (1 << 20))) == b"x" * (1 << 20)


def test_the_second_band_is_stored_as_a_reference(tmp_path: Any) -> None:
    store = sqlite_store(tmp_path / "store.db")
    store.commit(commit("r1", *_both()))
    store.commit(
        commit(
            "r2",
            write("ACTIVE/a//x", _record("ACTIVE")),
            write("LEDGER/a//x", {"band": "LEDGER", "n": 2}),
            at=1,
        )
    )
    with apsw.Connection(str(tmp_path / "store.db"), vfs="cksmvfs") as file:
        stored = {row[0]: row[1] for row in file.execute("SELECT key, content FROM versions")}

    assert stored[ACTIVE] == b"\x02"
    assert stored["ACTIVE/a//x"] != b"\x02", "its content is another one"
    assert _shown(store, ACTIVE) == canonical_bytes(_record("ACTIVE"))
    assert _shown(store, "ACTIVE/a//x") == canonical_bytes(_record("ACTIVE"))
    assert [one.content for one in store.versions_of(1)] == [
        one.content for one in store.scan(NAMESPACE, at=1)
    ]
    store.close()


def test_either_band_can_be_erased_first(store: Store) -> None:
    store.commit(commit("r1", *_both()))
    store.commit(commit("r2", expire(LEDGER, erases="asked to"), at=1))

    assert _shown(store, ACTIVE) == _shown(store, ACTIVE, at=1) == canonical_bytes(_record("ACTIVE"))
    assert _shown(store, LEDGER, at=1) is None
    assert list(store.verify()) == []
    store.commit(commit("r3", expire(ACTIVE, erases="asked to"), at=2))
    assert _shown(store, ACTIVE, at=1) is None
    assert list(store.verify()) == []


def test_the_second_band_can_expire_and_the_first_be_archived(store: Store) -> None:
    store.commit(commit("r1", *_both()))
    store.commit(commit("r2", expire(ACTIVE, erases="7 days"), at=1))
    store.commit(commit("r3", merge(LEDGER, _record("LEDGER") | {"tier": "COLD"}), at=2))

    assert _shown(store, LEDGER, at=1) == canonical_bytes(_record("LEDGER"))
    assert _shown(store, ACTIVE, at=1) is None
    assert list(store.verify()) == []


def test_both_bands_can_be_erased_at_once(store: Store) -> None:
    store.commit(commit("r1", *_both("the secret")))
    store.commit(
        commit("r2", merge(LEDGER, _record("LEDGER", "b")), merge(ACTIVE, _record("ACTIVE", "b")), at=1)
    )
    store.commit(commit("r3", expire(LEDGER, erases="asked to"), expire(ACTIVE, erases="asked to"), at=2))

    assert [version.content for key in (LEDGER, ACTIVE) for version in store.history(NAMESPACE, key)] == [
        None
    ] * 6
    assert list(store.verify()) == []


def test_a_copy_in_portions_shares_what_its_source_shares(store: Store, tmp_path: Any) -> None:
    """The bands of a large commit are copied one after the other."""
    names = range(400)
    records = [
        write(f"{band}/shared//m-{n}", _record(band, number=n))
        for band in ("LEDGER", "ACTIVE")
        for n in names
    ]
    store.commit(commit("r1", *records))
    store.commit(commit("r2", expire("LEDGER/shared//m-7", erases="asked to"), at=1))
    target, plain = sqlite_store(tmp_path / "copy.db"), memory_store()
    store.backup_to(target)
    target.backup_to(plain)

    assert list(target.verify()) == list(plain.verify()) == []
    assert target.versions_of(1) == store.versions_of(1) == plain.versions_of(1)
    with apsw.Connection(str(tmp_path / "copy.db"), vfs="cksmvfs") as file:
        assert file.execute("SELECT count(*) FROM versions WHERE content = x'02'").get == len(names) - 1
    target.close()


def test_a_version_that_is_no_reference_can_not_become_another(tmp_path: Any) -> None:
    store = sqlite_store(tmp_path / "store.db")
    store.commit(commit("r1", *_both()))
    file = apsw.Connection(str(tmp_path / "store.db"), vfs="cksmvfs")
    for change in (
        "content = x'0001'",
        "content = x'0301'",
        "content = NULL",
        "id = 9",
        "key = 'x'",
        "fingerprint = x'00'",
    ):
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            file.execute(f"UPDATE versions SET {change} WHERE key = '{LEDGER}'")

    file.close()
    store.close()
