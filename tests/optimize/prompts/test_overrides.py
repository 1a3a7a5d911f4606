"""One contract for the three overrides stores: versions, compare-and-set, expiry, and what a killed writer
leaves.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from standfast.clock import ManualClock
from standfast.limits import MAX_PROMPT_HISTORY
from standfast.optimize.errors import (
    InvalidTag,
    OverridesUnavailable,
    VersionConflict,
)
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.prompts.overrides import Name, PromptOverridesStore, RollbackRecord, StoredBytes
from standfast.optimize.prompts.prompt import Prompt
from standfast.optimize.prompts.template import PromptTemplate
from tests.optimize.prompts.builders import TEMPLATE, rules, tone
from tests.optimize.prompts.counting_process import count
from tests.raising import raises_code

ROOT = Path(__file__).parents[3]
NAME: dict[str, Any] = {"ns": "agent", "prompt_key": "support"}
Opener = Callable[[], PromptOverridesStore]


@pytest.fixture
def clock() -> ManualClock:
    """It begins now, because Redis ends temporary tags by its own clock."""
    from standfast.clock import SystemClock

    return ManualClock(SystemClock().now())


@pytest.fixture(params=["local", "redis", "s3"])
def opener(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Opener]:
    """Opens the same store again and again, as other processes do."""
    clients: list[Any] = []
    if request.param == "s3":
        server = request.getfixturevalue("s3_server")
        bucket = server.new_bucket()

    def open_store() -> PromptOverridesStore:
        if request.param == "local":
            return LocalPromptOverridesStore(tmp_path, clock=clock)
        if request.param == "redis":
            import redis

            from standfast.optimize.prompts.backends import RedisPromptOverridesStore

            url = redis_url
            clients.append(redis.Redis.from_url(url))
            return RedisPromptOverridesStore(client=clients[-1], clock=clock)
        from standfast.optimize.prompts.backends import S3PromptOverridesStore

        return S3PromptOverridesStore(client=server.client(), bucket=bucket, clock=clock)

    redis_url = request.getfixturevalue("redis_url") if request.param == "redis" else ""
    yield open_store
    for client in clients:
        client.close()


@pytest.fixture
def store(opener: Opener) -> PromptOverridesStore:
    return opener()


def test_what_is_stored_is_resolved_by_everyone(opener: Opener) -> None:
    written = opener().store(TEMPLATE, tone("Be polite."), tag="stable")

    assert opener().resolve(**NAME, tag="stable") == written
    assert written.version == 1
    assert opener().resolve(**NAME, tag="other") is None


def test_sections_are_stored_one_by_one_under_one_tag(store: PromptOverridesStore) -> None:
    store.store(TEMPLATE, tone("Be polite."), tag="stable")
    both = store.store(Prompt(TEMPLATE), rules("Use ${language}. NEVER guess."), tag="stable")

    assert [override.path for override in both.overrides] == [("role", "rules"), ("role", "tone")]
    assert both.version == 2


def test_a_compare_and_set_needs_the_version_that_was_read(store: PromptOverridesStore) -> None:
    first = store.replace(TEMPLATE, [tone("A.")], tag="stable", if_version=0)
    second = store.replace(TEMPLATE, [tone("B.")], tag="stable", if_version=first.version)

    for stale in (0, first.version, second.version + 1):
        with pytest.raises(VersionConflict) as refused:
            store.replace(TEMPLATE, [tone("C.")], tag="stable", if_version=stale)
        assert refused.value.facts["version"] == second.version
    assert store.resolve(**NAME, tag="stable") == second


def test_versions_never_begin_again(store: PromptOverridesStore) -> None:
    """Else a writer that read version 1 long ago could overwrite a version 1 that it has never seen."""
    store.replace(TEMPLATE, [tone("A.")], tag="stable", if_version=0)

    assert store.delete(**NAME, tag="stable")
    assert not store.delete(**NAME, tag="stable")
    assert store.resolve(**NAME, tag="stable") is None
    assert store.list() == []
    again = store.replace(TEMPLATE, [tone("A.")], tag="stable", if_version=0)
    assert again.version == 3


def test_of_many_who_write_at_once_one_wins_each_version(opener: Opener) -> None:
    """Each raises a number by compare-and-set; the sum tells whether any write was lost."""
    turns, writers = 6, 3

    threads = [threading.Thread(target=count, args=(opener(), turns)) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    final = opener().resolve(**NAME, tag="stable")

    assert final is not None
    assert (final.overrides[0].body, final.version) == (str(turns * writers), turns * writers)


def test_of_many_processes_on_one_folder_one_wins_each_version(tmp_path: Path) -> None:
    """A fourth is killed in the midst of it, lock and all, and holds nobody up."""
    command = [sys.executable, "-m", "tests.optimize.prompts.counting_process", str(tmp_path)]
    doomed = subprocess.Popen([*command, "1000000"], cwd=ROOT)
    store = LocalPromptOverridesStore(tmp_path)
    while store.resolve(**NAME, tag="stable") is None:
        time.sleep(0.01)
    doomed.kill()
    doomed.communicate()
    before = store.resolve(**NAME, tag="stable")
    others = [subprocess.Popen([*command, "10"], cwd=ROOT) for _ in range(3)]
    codes = [other.wait() for other in others]
    final = store.resolve(**NAME, tag="stable")

    assert codes == [0, 0, 0]
    assert before is not None
    assert final is not None
    assert (int(final.overrides[0].body), final.version) == (before.version + 30, before.version + 30)


def test_temporary_tags_end_and_are_swept(store: PromptOverridesStore, clock: ManualClock) -> None:
    store.replace(TEMPLATE, [tone("A.")], tag="opt-1", lifetime_seconds=60)
    store.replace(TEMPLATE, [tone("B.")], tag="opt-2", lifetime_seconds=3600)
    store.replace(TEMPLATE, [tone("C.")], tag="stable")
    clock.advance(61)

    assert store.resolve(**NAME, tag="opt-1") is None
    assert [one.tag for one in store.list()] == ["opt-2", "stable"]
    assert store.sweep() == ("opt-1",)
    assert store.sweep() == ()
    assert [one.tag for one in store.list()] == ["opt-2", "stable"]


def test_a_temporary_tag_always_has_an_end(store: PromptOverridesStore) -> None:
    assert store.store(TEMPLATE, tone("A."), tag="opt-1").expires_at is not None
    assert store.store(TEMPLATE, tone("A."), tag="stable").expires_at is None


def test_only_temporary_tags_may_end(store: PromptOverridesStore) -> None:
    with pytest.raises(InvalidTag):
        store.replace(TEMPLATE, [tone("A.")], tag="stable", lifetime_seconds=60)
    with pytest.raises(InvalidTag):
        store.replace(TEMPLATE, [tone("A.")], tag="opt-1", lifetime_seconds=0)


def test_a_temporary_tag_is_deleted_without_a_trace(store: PromptOverridesStore) -> None:
    store.replace(TEMPLATE, [tone("A.")], tag="opt-1")

    assert store.delete(**NAME, tag="opt-1")
    assert not store.delete(**NAME, tag="opt-1")
    assert store._backend.contents(None, None) == []


@pytest.mark.parametrize("odd", ["../../etc", "a/b:c*?[x]", "ü😀", "%2F", ".", "n" * 256])
def test_names_may_hold_anything_printable(store: PromptOverridesStore, odd: str) -> None:
    template = PromptTemplate(ns=odd, key=odd, sections=TEMPLATE.sections)
    store.replace(template, [tone("A.")], tag=odd)
    other = PromptTemplate(ns="other", key=odd, sections=TEMPLATE.sections)
    store.replace(other, [tone("B.")], tag=odd)

    known = store.resolve(ns=odd, prompt_key=odd, tag=odd)
    assert known is not None
    assert known.tag == odd
    assert [one.ns for one in store.list(ns=odd)] == [odd]
    assert len(store.list(prompt_key=odd)) == 2
    assert store.list(ns=odd, prompt_key="none") == []


def test_a_write_whose_answer_was_lost_is_known_as_ours(store: PromptOverridesStore) -> None:
    """Client libraries repeat a call on their own; the second time, the condition fails because of the
    first.
    """
    backend = store._backend

    class Repeating:
        """Writes twice and tells of the second time."""

        def read(self, name: Name) -> StoredBytes | None:
            return backend.read(name)

        def write(self, name: Name, content: bytes, **options: Any) -> bool:
            backend.write(name, content, **options)
            return backend.write(name, content, **options)

    store._backend = Repeating()  # type: ignore[assignment]
    first = store.replace(TEMPLATE, [tone("A.")], tag="stable", if_version=0)
    second = store.replace(TEMPLATE, [tone("B.")], tag="stable", if_version=1)

    assert (first.version, second.version) == (1, 2)


def test_a_damaged_file_is_told_and_not_rendered(tmp_path: Path) -> None:
    store: PromptOverridesStore = LocalPromptOverridesStore(tmp_path)
    store.store(TEMPLATE, tone("Be polite."), tag="stable")
    [file] = tmp_path.rglob("*.json")
    file.write_bytes(file.read_bytes().replace(b"polite", b"brutal"))

    with raises_code("damaged_override"):
        store.resolve(**NAME, tag="stable")


def test_a_writer_that_was_killed_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies after the new bytes are written and before they are swapped in."""
    store = LocalPromptOverridesStore(tmp_path)
    first = store.store(TEMPLATE, tone("A."), tag="opt-1")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            store.store(TEMPLATE, tone("B."), tag="opt-1")

    assert store.resolve(**NAME, tag="opt-1") == first
    assert store.delete(**NAME, tag="opt-1")
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == [".lock"]


def test_a_server_that_is_away_is_told_in_our_words() -> None:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    from standfast.optimize.prompts.backends import RedisPromptOverridesStore

    retry = Retry(NoBackoff(), 0)
    client = redis.Redis(host="127.0.0.1", port=1, retry=retry)

    with pytest.raises(OverridesUnavailable):
        RedisPromptOverridesStore(client=client).resolve(**NAME, tag="stable")
    client.close()


def test_a_temporary_tag_ends_at_its_last_instant(store: PromptOverridesStore, clock: ManualClock) -> None:
    store.replace(TEMPLATE, [tone("A.")], tag="opt-1", lifetime_seconds=60)
    clock.advance(59.999)
    before = store.resolve(**NAME, tag="opt-1")
    clock.advance(0.001)

    assert before is not None
    assert store.resolve(**NAME, tag="opt-1") is None


def test_deleting_needs_the_version_that_was_read(store: PromptOverridesStore) -> None:
    store.store(TEMPLATE, tone("A."), tag="stable")
    with pytest.raises(VersionConflict):
        store.delete(**NAME, tag="stable", if_version=2)

    assert store.delete(**NAME, tag="stable", if_version=1)
    with pytest.raises(VersionConflict):
        store.delete(**NAME, tag="stable", if_version=2)


def test_a_sweep_leaves_the_versions_of_deleted_tags(store: PromptOverridesStore) -> None:
    store.store(TEMPLATE, tone("A."), tag="stable")
    store.delete(**NAME, tag="stable")

    assert store.sweep() == ()
    assert store.store(TEMPLATE, tone("B."), tag="stable").version == 3


def test_a_section_that_is_stored_again_has_the_new_text(store: PromptOverridesStore) -> None:
    store.store(TEMPLATE, tone("A."), tag="stable")
    second = store.store(TEMPLATE, tone("B."), tag="stable")

    assert [override.body for override in second.overrides] == ["B."]


def test_the_history_has_every_version_that_was_replaced(store: PromptOverridesStore) -> None:
    first = store.replace(TEMPLATE, [tone("A.")], tag="stable", seal_id="seal-1")
    second = store.store(TEMPLATE, tone("B."), tag="stable")
    nothing = RollbackRecord(version=0, overrides=None)

    assert first.history == (nothing,)
    assert second.history == (
        RollbackRecord(version=1, overrides=first.overrides, seal_id="seal-1"),
        nothing,
    )


def test_the_history_is_bounded_and_temporary_tags_have_none(store: PromptOverridesStore) -> None:
    for number in range(MAX_PROMPT_HISTORY + 3):
        newest = store.replace(TEMPLATE, [tone(f"{number}.")], tag="stable")
    temporary = [store.replace(TEMPLATE, [tone(text)], tag="opt-1") for text in ("A.", "B.")]

    assert [one.version for one in newest.history] == list(range(newest.version - 1, 2, -1))
    assert [one.history for one in temporary] == [(), ()]
