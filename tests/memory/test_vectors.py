"""Vectors in a memory: stored with each commit, as of every snapshot, erased with their records, filled in
where they are missing.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.clock import CountedIds, ManualClock
from standfast.errors import EmbeddingFailed, InvalidValue
from standfast.memory import Memory
from standfast.recall import RecallPackage, StaticEmbedder
from standfast.store.store import Store
from tests.memory.conftest import HANDBOOK
from tests.store.builders import memory_store
from tests.store.conftest import Opener

KITTEN = "Ada adopted a kitten last spring."
ORCHESTRA = "Bob plays the violin in an orchestra."


class Failing(StaticEmbedder):
    """An embedder that can be told to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 10**6

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.int8]:
        """Fail once the texts are used up."""
        self.left -= len(texts)
        if self.left < 0:
            raise EmbeddingFailed(embedder="failing", problem="the server is down")
        return super().embed(texts)


class Another(StaticEmbedder):
    """Other vectors under another name."""

    name = "another"

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.int8]:
        """The table with its dimensions turned around."""
        return super().embed(texts)[:, ::-1].copy()


def _ids(package: Any) -> list[str]:
    return [item.memory_id for item in package.items]


def _remember(memory: Memory, text: str, subject: str) -> None:
    memory.remember(text, subject=subject, source=HANDBOOK)


def _package(memory: Memory, query: str = "cat", at: int | None = None) -> RecallPackage:
    view = memory.at(memory.store.head() if at is None else at)
    package = view.recall(query, controller="hybrid-v1")
    assert isinstance(package, RecallPackage)
    return package


def test_a_record_is_found_by_what_it_means_in_every_backend(opener: Opener) -> None:
    memory = Memory(opener(), embedder="static")
    _remember(memory, KITTEN, "ada/pets")
    _remember(memory, ORCHESTRA, "bob/hobby")

    assert _ids(_package(memory)) == ["ada/pets", "bob/hobby"]
    assert memory.recall("cat") == _package(memory), "it is what recall does"
    assert _package(memory).matched == 1
    assert _package(memory, "quantum chromodynamics").matched == 0
    assert _ids(_package(Memory(opener(), embedder=StaticEmbedder()))) == ["ada/pets", "bob/hobby"]
    assert list(memory.verify()) == []


def test_time_travel_and_forgetting_are_exact_in_every_backend(opener: Opener) -> None:
    memory = Memory(opener(), embedder="static")
    _remember(memory, KITTEN, "ada/pets")
    then = _package(memory)
    _remember(memory, "Ada gave the animal to her sister.", "ada/pets")
    _remember(memory, "Cats sleep a lot.", "fact/cats")

    assert _package(memory, at=1) == then
    assert _package(Memory(opener(), embedder="static"), at=1) == then
    assert Memory(opener()).at(1).recall_again(then) == then

    memory.forget("ada/pets", reason="asked for")

    assert _ids(_package(memory, at=1)) == []
    assert _ids(_package(Memory(opener(), embedder="static"), at=1)) == []
    assert {one.key.rpartition("/")[2] for one in memory.store.vectors("default")} == {"cats"}
    assert list(memory.verify()) == []


@pytest.mark.parametrize("opened", [Memory.open, lambda _, **given: Memory(memory_store(), **given)])
def test_without_vectors_hybrid_v1_goes_by_words_and_filling_in_says_what_to_do(
    opened: Callable[..., Memory],
) -> None:
    memory = opened(":memory:", embedder="none")
    _remember(memory, KITTEN, "ada/pets")
    package = memory.recall("kitten")

    assert isinstance(package, RecallPackage)
    assert (_ids(package), package.request.vector) == (["ada/pets"], None)
    assert list(memory.store.vectors("default")) == []
    (related,) = memory.at(1).explain("Does she have a cat?").explanation.items
    assert related.as_json()["why"] == ["meaning"]
    with pytest.raises(InvalidValue, match="embedder"):
        memory.vectors.fill(by="op")


def test_a_failing_embedder_loses_no_commit_and_the_vectors_are_filled_in_later() -> None:
    embedder = Failing()
    memory = Memory(memory_store(), embedder=embedder)
    _remember(memory, ORCHESTRA, "bob/hobby")
    embedder.left = 0
    _remember(memory, KITTEN, "ada/pets")

    assert memory.vectors.status().missing == 1
    assert "stored without vectors" in memory.warnings[0]
    assert "standfast vectors fill" in memory.warnings[0]
    with pytest.raises(EmbeddingFailed):
        _package(memory)

    embedder.left = 10**6
    before = _package(memory)
    assert before.matched == 0
    told = []
    status = memory.vectors.fill(by="op", progress=lambda done, total: told.append((done, total)))
    assert (status.missing, told) == (0, [(2, 2)])
    assert _package(memory).matched == 1
    # A snapshot from before shows what it showed.
    assert _package(memory, at=2) == before
    (entry,) = [one.read()["body"]["told"] for one in memory.store.entries() if b'"vectors"' in one.content][
        :1
    ]
    assert (entry["by"], entry["embedder"], entry["state"]) == ("op", "static-minilm/1/128", "filling")
    head = memory.store.head()
    memory.vectors.fill(by="op")
    assert memory.store.head() == head
    assert list(memory.verify()) == []


def test_filling_in_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("standfast.memory.embedding.FILLED_AT_ONCE", 2)
    store = memory_store()
    plain = Memory(store, embedder="none")
    for number in range(5):
        _remember(plain, f"{KITTEN} It is number {number} of the litter.", f"cat/{number}")
    embedder = Failing()
    embedder.left = 3
    memory = Memory(store, embedder=embedder)
    with pytest.raises(EmbeddingFailed):
        memory.vectors.fill(by="op")
    assert memory.vectors.status().with_vector == 2

    embedder.left = 3
    assert memory.vectors.fill(by="op").missing == 0


def test_another_embedder_takes_over_while_both_can_be_used() -> None:
    store = memory_store()
    old = Memory(store, embedder="static")
    _remember(old, KITTEN, "ada/pets")
    before = _package(old)
    status = old.vectors.migrate(Another(), by="op")
    assert (status.embedder, status.missing) == ("another/1/128", 0)
    new = Memory(store, embedder=Another())
    _remember(new, ORCHESTRA, "bob/hobby")

    assert _ids(_package(old))[0] == _ids(_package(new))[0] == "ada/pets"
    assert _package(old, at=1) == before
    told = [one.read()["body"]["told"] for one in store.entries() if one.read()["kind"] == "vectors"]
    assert {one["replaces"] for one in told} == {"static-minilm/1/128"}
    assert told[-1]["state"] == "complete"
    # Both embedders are in use in this process, so what is new has both vectors.
    assert len([one for one in store.vectors("default") if "bob" in one.key]) == 2


def test_a_long_record_is_found_by_one_of_its_passages_which_is_then_shown() -> None:
    memory = Memory(memory_store(), embedder="static")
    months = ("January", "March", "May", "July", "August", "October", "December")
    rules = "".join(
        f"The invoice of {month} must be paid within {days} days of delivery. "
        for days, month in enumerate(months * 2, 14)
    )
    music = (
        "Some evenings Bob plays the violin in the symphony orchestra of his town, next to the cellos and the"
        " flutes. They rehearse sonatas and quartets by Brahms and Schubert, and a choir of sopranos and"
        " tenors sings along. Afterwards the pianist, the drummer and the trumpeter improvise jazz. "
    )
    memory.remember(f"{rules}{music}{rules.replace('invoice', 'bill')}", subject="report", source=HANDBOOK)
    (vector,) = memory.store.vectors("default")
    (item,) = memory.recall("musical instruments", tokens=200).items

    assert len(vector.content) > 128 * 4
    assert "violin" in item.excerpt
    assert item.excerpt.startswith("…")
    assert list(memory.verify()) == []


def test_explain_shows_what_words_and_vectors_contribute() -> None:
    memory = Memory(memory_store(), embedder="static")
    _remember(memory, KITTEN, "ada/pets")
    (item,) = memory.at(1).explain("cat", controller="hybrid-v1").explanation.items
    parts = item.as_json()["parts"]

    assert (parts["lexical"], parts["vector"]) == (2**20, 2**20 * 60 // 100), "a kitten is like a cat"
    assert item.as_json()["why"] == ["meaning"], "no word of the question is in it"
    assert 40 <= parts["similarity"] <= 100
    assert item.as_json()["outcome"] == "selected"


def test_explain_names_words_and_meaning_only_where_the_record_itself_has_them() -> None:
    memory = Memory(memory_store(), embedder="static")
    turns = ["Where did the parcel go?", "\u0f03\u0f03", "Ada adopted a kitten last spring."]
    memory.add([{"role": "user", "content": one} for one in turns], session="s")
    explained: Any = memory.explain("Where is the parcel? Is it a cat?").explanation.items
    parcel, signs, kitten = sorted(explained, key=lambda one: one.memory_id)

    assert "words" in parcel.why
    assert "neighbours" not in parcel.why
    assert signs.parts["similarity"] == 0
    assert signs.why == ("neighbours",)
    assert kitten.why == ("meaning", "neighbours")


def test_a_memory_explains_its_newest_snapshot() -> None:
    memory = Memory(memory_store())
    _remember(memory, KITTEN, "ada/pets")
    answer = memory.explain("kitten", tokens=100)

    assert answer.package == memory.recall("kitten", tokens=100)
    assert answer.explanation == memory.at(1).explain("kitten", tokens=100).explanation


TOLD = "2020-05-01T10:00:00Z"


def _told_in_2020(memory: Memory) -> Memory:
    """Facts, a conversation with a relative date, and something that is forgotten."""
    for subject, text in (("ada/pets", KITTEN), ("bob/hobby", ORCHESTRA), ("gone", "Cats are gone.")):
        memory.remember(text, subject=subject, source=HANDBOOK, time=TOLD)
    turns = ["Who looks after the cat?", "Bob did, yesterday.", "And who plays music?"]
    memory.add([{"role": "user", "name": "Ada", "content": one, "time": TOLD} for one in turns], session="s")
    memory.forget("gone", reason="asked for")
    return memory


def test_every_backend_gives_the_same_bytes_warm_and_cold_without_a_clock(opener: Opener) -> None:
    expected = _told_in_2020(Memory(memory_store()))
    warm = _told_in_2020(Memory(opener()))
    asked = ("What pet does Ada have?", "music", "Who looked after the cat in April 2020?", "???", "harbour")

    def packages(memory: Memory) -> list[Any]:
        return [
            package.as_json() | {"text": package.text}
            for controller in ("hybrid-v1", "lexical-v1")
            for at in (4, memory.store.head())
            for question in asked
            if (package := memory.at(at).recall(question, tokens=120, controller=controller))
        ]

    first = packages(warm)
    assert first == packages(expected)
    assert packages(warm) == packages(Memory(opener())) == first
    warm.reader.index.upkeep.rebuild()
    assert packages(Memory(opener())) == first, "the stored index changes nothing"


LARGE = [f"Cats and pets meow, {number}." for number in range(600)]


@pytest.mark.parametrize("question", ["???", "\u7684", "kitten"])
def test_what_shares_no_word_takes_a_quarter_of_a_large_scope_however_alike_it_is(question: str) -> None:
    memory = Memory(memory_store(), embedder="static")
    for start in (0, 200, 400):
        page = LARGE[start : start + 200]
        memory.add([{"role": "user", "content": one} for one in page], session="log")
    package: Any = memory.recall(question, tokens=400)

    assert 60 < package.text_tokens <= 100
    if question != "kitten":
        assert all(item.position >= 400 for item in package.items), "the newest are shown"


TEXTS = (KITTEN, ORCHESTRA, "The cat sleeps.", "Cellos are large violins.", "The office closes at six.")


@given(
    st.lists(st.tuples(st.sampled_from("abcF"), st.integers(0, len(TEXTS) - 1)), min_size=1, max_size=8),
    st.booleans(),
)
@settings(max_examples=25)
def test_a_package_of_then_is_the_package_of_now(steps: list[tuple[str, int]], is_warm: bool) -> None:
    store = Store(memory_store(ManualClock())._storage, clock=ManualClock(), ids=CountedIds())
    memory = Memory(store, embedder="static")
    then: dict[int, RecallPackage] = {}
    for name, number in steps:
        if name != "F":
            _remember(memory, TEXTS[number], f"subject/{name}")
        elif any(record.memory_id == "subject/a" for record in memory.records()):
            memory.forget("subject/a", reason="asked for")
            then.clear()
        if is_warm or not then:
            then[store.head()] = _package(memory, "cat and music")

    for head, package in then.items():
        assert _package(memory, "cat and music", at=head) == package
        assert _package(Memory(store, embedder="static"), "cat and music", at=head) == package
    assert list(store.verify()) == []


def test_settings_name_the_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from standfast.errors import InvalidSettings
    from standfast.settings import Settings
    from standfast.wiring import open_memory

    with open_memory(Settings(store=str(tmp_path / "a.db"), embedder="static"), create=True) as memory:
        _remember(memory, KITTEN, "ada/pets")
        assert _ids(_package(memory)) == ["ada/pets"]
    with pytest.raises(InvalidSettings, match="local:FOLDER"):
        open_memory(Settings(store=":memory:", embedder="nonsense"), create=True)


def test_what_is_no_embedder_is_refused_with_what_it_lacks() -> None:
    with pytest.raises(InvalidValue, match=r"has no name, version, dimensions, .*embed; give a name"):
        Memory.open(":memory:", embedder=5)  # type: ignore[arg-type]  # A mistake.


def test_filling_in_an_empty_memory_notes_that_it_is_done_once() -> None:
    memory = Memory(memory_store(), embedder=StaticEmbedder())
    status = memory.vectors.fill(by="op")
    head = memory.store.head()

    assert (status.records, status.missing) == (0, 0)
    memory.vectors.fill(by="op")
    assert memory.store.head() == head
