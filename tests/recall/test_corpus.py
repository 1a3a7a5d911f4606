"""Files that are kept: results are those of a cold read, whatever is kept and whatever happens to the file or the cache."""

import os
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import Corruption, InvalidRequest, MissingStore
from standfast.recall import controller
from standfast.recall.request import MemoryControllerInput
from standfast.recall.sources.corpus import Corpus
from tests.recall.stores import FEW, contents, requests, written

LINE = (
    b'{"memory_id":"m%d","text":"refund rules %d","ts_utc":"2026-01-15T10:30:00Z","tags":["eu"],"refs":[]}\n'
)
STORE = b"".join(LINE % (number, number) for number in range(2_000))
REQUEST: dict[str, Any] = {"query": "refund eu 17", "budget": {"max_excerpt_tokens": 60}, "dropped": "counts"}


def _read(path: str, corpus: Corpus | None = None, request: dict[str, Any] = REQUEST) -> dict[str, Any]:
    asked = MemoryControllerInput.from_json(request | {"store_paths": [path]})
    return (controller.read(asked, corpus.open) if corpus else controller.read(asked)).as_json()


@FEW
@given(st.lists(contents, min_size=1, max_size=4), st.booleans(), requests())
def test_neither_what_is_kept_nor_the_cache_shows(
    versions: list[bytes], grows: bool, request: dict[str, Any]
) -> None:
    with written(b"") as (path,), TemporaryDirectory() as cache:
        corpus = Corpus(cache_folder=cache)
        content = b""
        for version in versions:
            content = content + version if grows else version
            Path(path).write_bytes(content)
            cold = _read(path, None, request)

            assert _read(path, corpus, request) == cold
            assert _read(path, Corpus(cache_folder=cache), request) == cold


def test_a_file_that_is_as_it_was_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.jsonl"
    path.write_bytes(STORE)
    corpus = Corpus()
    first = _read(str(path), corpus)
    monkeypatch.setattr(os, "read", lambda *_: pytest.fail("the file was read again"))

    assert _read(str(path), corpus) == first


def test_only_the_end_of_a_file_that_grew_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    path.write_bytes(STORE)
    corpus = Corpus()
    before = corpus.open(str(path)).kept
    path.write_bytes(STORE + LINE % (9, 9))
    after = corpus.open(str(path)).kept

    assert len(before) > 2
    assert [new is old for new, old in zip(after, before, strict=False)][:-1] == [True] * (len(before) - 1)
    assert after[-1].segment.next_place == 2_002


def test_a_change_in_the_middle_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    path.write_bytes(STORE)
    corpus = Corpus()
    corpus.open(str(path))
    path.write_bytes(STORE.replace(b"rules 1000", b"RULES 17 x"))

    assert _read(str(path), corpus) == _read(str(path))


def test_a_store_that_is_gone_is_an_error_though_it_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    path.write_bytes(STORE)
    corpus = Corpus()
    corpus.open(str(path))
    path.unlink()

    with pytest.raises(MissingStore):
        corpus.open(str(path))


@pytest.mark.parametrize("seed", range(16))
def test_a_damaged_cache_never_shows(seed: int, tmp_path: Path) -> None:
    path, cache = tmp_path / "store.jsonl", tmp_path / "cache"
    path.write_bytes(STORE)
    cold = _read(str(path), Corpus(cache_folder=cache))
    (file,) = cache.iterdir()
    dice = random.Random(seed)
    content = bytearray(file.read_bytes())
    match seed % 4:
        case 0:
            content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        case 1:
            del content[dice.randrange(len(content)) :]
        case 2:
            del content[dice.randrange(len(content))]
        case _:
            content = bytearray(dice.randbytes(dice.randrange(200)))
    file.write_bytes(content)

    assert _read(str(path), Corpus(cache_folder=cache)) == cold


def test_a_cache_that_somebody_else_could_have_written_is_passed_over(tmp_path: Path) -> None:
    path, cache = tmp_path / "store.jsonl", tmp_path / "cache"
    path.write_bytes(STORE)
    corpus = Corpus(cache_folder=cache)
    corpus.open(str(path))
    (file,) = cache.iterdir()

    assert file.stat().st_mode & 0o777 == 0o600
    assert cache.stat().st_mode & 0o777 == 0o700

    file.write_bytes(_poisoned(file.read_bytes()))
    file.chmod(0o666)

    assert _read(str(path), Corpus(cache_folder=cache)) == _read(str(path))


def test_a_cache_that_lies_is_found_out(tmp_path: Path) -> None:
    """Not by a hash, which a forger makes anew: by scoring what would be selected again, from the store's own bytes."""
    path, cache = tmp_path / "store.jsonl", tmp_path / "cache"
    path.write_bytes(STORE)
    Corpus(cache_folder=cache).open(str(path))
    (file,) = cache.iterdir()
    file.write_bytes(_poisoned(file.read_bytes()))

    with pytest.raises(Corruption, match="delete the cache"):
        _read(str(path), Corpus(cache_folder=cache), REQUEST | {"query": "refund evil1"})


def _poisoned(content: bytes) -> bytes:
    """A cache with other texts in it, and all hashes made to fit."""
    import hashlib

    import msgspec

    from standfast.recall.sources.sidecar import MAGIC, _Index

    head = len(MAGIC) + 8
    size = int.from_bytes(content[len(MAGIC) : head], "big")
    index = msgspec.msgpack.decode(content[head : head + size], type=_Index)
    entries = content[head + size + 32 :].replace(b"refund rules", b"refund evil1")
    forged = {
        digest: (start, length, hashlib.sha256(entries[start : start + length]).digest())
        for digest, (start, length, _) in index.items()
    }
    text = msgspec.msgpack.encode(forged)
    return MAGIC + len(text).to_bytes(8, "big") + text + hashlib.sha256(text).digest() + entries


def test_a_cache_folder_that_can_not_be_used_is_as_good_as_none(tmp_path: Path) -> None:
    path, cache = tmp_path / "stores" / "store.jsonl", tmp_path / "cache"
    path.parent.mkdir()
    path.write_bytes(STORE)
    cache.write_text("a file where a folder should be", encoding="utf-8")

    assert _read(str(path), Corpus(cache_folder=cache)) == _read(str(path))


def test_the_cache_is_never_put_into_the_folder_of_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    path.write_bytes(STORE)

    with pytest.raises(InvalidRequest, match="choose another"):
        Corpus(cache_folder=tmp_path).open(str(path))
    assert [found.name for found in tmp_path.iterdir()] == ["store.jsonl"]
