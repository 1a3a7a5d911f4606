"""JSONL files kept in memory: results are those of a cold read, whatever is kept and whatever happens to the file."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import MissingStore
from standfast.recall import JsonlCorpus, MemoryControllerInput, read
from tests.recall.stores import FEW, contents, requests, written

LINE = (
    b'{"memory_id":"m%d","text":"refund rules %d","ts_utc":"2026-01-15T10:30:00Z","tags":["eu"],"refs":[]}\n'
)
STORE = b"".join(LINE % (number, number) for number in range(2_000))
REQUEST: dict[str, Any] = {"query": "refund eu 17", "budget": {"max_excerpt_tokens": 60}, "dropped": "counts"}


def _read(path: str, corpus: JsonlCorpus | None = None, request: dict[str, Any] = REQUEST) -> dict[str, Any]:
    asked = MemoryControllerInput.from_json(request | {"store_paths": [path]})
    return (read(asked, corpus.open) if corpus else read(asked)).as_json()


@FEW
@given(st.lists(contents, min_size=1, max_size=4), st.booleans(), requests())
def test_what_is_kept_never_shows(versions: list[bytes], grows: bool, request: dict[str, Any]) -> None:
    with written(b"") as (path,):
        corpus = JsonlCorpus()
        content = b""
        for version in versions:
            content = content + version if grows else version
            Path(path).write_bytes(content)

            assert _read(path, corpus, request) == _read(path, None, request)


def test_a_file_that_is_as_it_was_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.jsonl"
    path.write_bytes(STORE)
    corpus = JsonlCorpus()
    first = _read(str(path), corpus)
    monkeypatch.setattr(os, "read", lambda *_: pytest.fail("the file was read again"))

    assert _read(str(path), corpus) == first


def test_only_the_end_of_a_file_that_grew_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    path.write_bytes(STORE)
    corpus = JsonlCorpus()
    before = list(corpus.open(str(path)).batches())
    path.write_bytes(STORE + LINE % (9, 9))
    after = list(corpus.open(str(path)).batches())

    assert len(before) > 2
    assert [new is old for new, old in zip(after, before, strict=False)][:-1] == [True] * (len(before) - 1)
    assert sum(map(len, after)) == 2_001


def test_a_change_in_the_middle_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    path.write_bytes(STORE)
    corpus = JsonlCorpus()
    corpus.open(str(path))
    path.write_bytes(STORE.replace(b"rules 1000", b"RULES 17 x"))

    assert _read(str(path), corpus) == _read(str(path))


def test_a_store_that_is_gone_is_an_error_though_it_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    path.write_bytes(STORE)
    corpus = JsonlCorpus()
    corpus.open(str(path))
    path.unlink()

    with pytest.raises(MissingStore):
        corpus.open(str(path))
