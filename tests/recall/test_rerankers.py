"""Rerankers: the best records are looked at again, once; replay needs nobody; a failure costs no answer."""

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from standfast.errors import InvalidSettings, InvalidValue, RerankingFailed
from standfast.memory import Memory
from standfast.recall import HttpReranker, LocalReranker, RerankScores, open_reranker
from standfast.recall.bert import BertEncoder
from standfast.recall.ranking import SNAPSHOT_BITS
from standfast.recall.rerankers import RERANKED
from standfast.settings import Settings
from standfast.wiring import reranker_of
from tests.memory.conftest import HANDBOOK
from tests.recall.test_embedders import _model
from tests.store.builders import memory_store

FACTS = {
    "tea": "Ada drinks tea.",
    "harbour": "Ada's boat lies in the harbour.",
    "violin": "Ada plays the violin.",
}


class ByVowels:
    """Scores a text by its letters o, which no controller would do."""

    name, version = "vowels", "1"

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """How often each text has the letter."""
        self.asked.append((query, list(texts)))
        return [text.count("o") - 5.5 for text in texts]


class Broken(ByVowels):
    """Gives what it must not give."""

    def __init__(self, given: Any) -> None:
        super().__init__()
        self.given = given

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Fail, or give something else than promised."""
        super().scores(query, texts)
        if isinstance(self.given, Exception):
            raise self.given
        return self.given  # type: ignore[no-any-return]  # That is what is tested.


def _told(**options: Any) -> Memory:
    memory = Memory(memory_store(), **options)
    for subject, text in FACTS.items():
        memory.remember(text, subject=subject, source=HANDBOOK)
    return memory


def _ids(package: Any) -> list[str]:
    return [item.memory_id for item in package.items]


class Undecided(ByVowels):
    """Scores all alike."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """The same for each."""
        super().scores(query, texts)
        return [0.5] * len(texts)


def test_what_a_reranker_scores_alike_stays_in_its_order() -> None:
    plain, reranked = Memory(memory_store()), Memory(memory_store(), reranker=Undecided())
    for memory in (plain, reranked):
        for number in range(6):
            memory.remember(f"Item {number} lies on the shelf.", subject=f"item/{number}", source=HANDBOOK)
        memory.remember("Ada drinks tea.", subject="tea", source=HANDBOOK)

    for query in ("Where is item 2?", "shelf", "Does Ada drink?"):
        package: Any = reranked.recall(query)
        assert package.request.reranking is not None
        assert _ids(package) == _ids(plain.recall(query))


@pytest.mark.parametrize("controller", ["hybrid-v1", "lexical-v1"])
def test_the_best_are_ordered_by_the_reranker_and_scores_say_so(controller: str) -> None:
    reranker = ByVowels()
    memory = _told(reranker=reranker)
    package: Any = memory.recall("What does Ada drink?", controller=controller)

    assert _ids(package) == ["harbour", "violin", "tea"]
    scores = [item.score for item in package.items]
    assert scores == sorted(scores, reverse=True)
    points = [score >> SNAPSHOT_BITS for score in scores]
    # Two letters o, one, none: the best has all of the spread above the others, the second half of it.
    assert [points[0] - points[2], points[1] - points[2]] == [1 << 20, 1 << 19]
    assert package.request.reranking.reranker == "vowels/1"
    assert package.request.reranking.scores["LEDGER/shared//harbour"] == -3_500_000
    assert [query for query, _ in reranker.asked] == ["What does Ada drink?"]
    (first, *_) = memory.explain("What does Ada drink?", controller=controller).explanation.items
    assert first.as_json()["parts"]["reranker"] == -3_500_000


def test_a_replay_asks_nobody_and_gives_the_same_bytes() -> None:
    memory = _told(reranker=ByVowels())
    package: Any = memory.recall("What does Ada drink?")
    memory.reader._reranker = Broken(RuntimeError("nobody is asked"))
    without = Memory(memory.store)

    for replayed in (memory.at(3).recall_again(package), without.at(3).recall_again(package)):
        assert replayed.as_json() == package.as_json()
    assert memory.warnings == []
    plain: Any = without.recall("What does Ada drink?")
    memory.reader._reranker = ByVowels()
    assert memory.at(3).recall_again(plain) == plain, "what was made without a reranker stays so"


def test_only_the_best_are_looked_at_and_long_texts_are_cut() -> None:
    reranker = ByVowels()
    memory = Memory(memory_store(), reranker=reranker)
    turns = [f"Parcel number {number} is late." for number in range(RERANKED + 20)]
    memory.add([{"role": "user", "content": one} for one in (*turns, "parcel. " * 900)], session="s")
    memory.recall("parcel", tokens=4000)
    ((_, texts),) = reranker.asked

    assert len(texts) == RERANKED
    assert max(map(len, texts)) <= 4 * 256 + len("user: ")
    assert all(text.startswith("user: ") for text in texts)


@pytest.mark.parametrize(
    "given", [RuntimeError("out of memory"), [1.0], [1.0, 2.0, float("nan")], None, ["a", "b", "c"]]
)
def test_a_reranker_that_fails_costs_no_answer_and_a_warning_says_so(given: Any) -> None:
    memory = _told(reranker=Broken(given))
    package = memory.recall("What does Ada drink?")

    assert package == Memory(memory.store).recall("What does Ada drink?")
    assert any("The reranker vowels/1 failed" in one for one in memory.warnings)


def test_what_is_no_reranker_is_refused_before_a_store_is_opened(tmp_path: Path) -> None:
    for wrong in (
        "fast",
        "local:/no/such/folder",
        "http://host/v1",
        "https://h/v1?model=m&top=3",
        5,
        "http://h?=",
    ):
        with pytest.raises(InvalidValue):
            Memory.open(str(tmp_path / "agent.db"), reranker=wrong)  # type: ignore[arg-type]  # That is the point.
    with pytest.raises(InvalidValue, match="http"):
        HttpReranker("m", base_url="ftp://host")
    with pytest.raises(InvalidSettings, match="reranker"):
        reranker_of(Settings(reranker="fast"))

    assert list(tmp_path.iterdir()) == []


# A server.


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        counts = [text.count("o") for text in body["documents"]]
        results = [{"index": at, "relevance_score": counts[at]} for at in reversed(range(len(counts)))]
        status, answer = 200, json.dumps({"results": results})
        if self.headers.get("Authorization") == "Bearer wrong":
            status, answer = 401, "no such key"
        elif body["model"] == "bare":
            answer = json.dumps([{"index": one["index"], "score": one["relevance_score"]} for one in results])
        elif body["model"] == "short":
            answer = json.dumps({"results": results[:1]})
        elif self.path != "/v1/rerank":
            status, answer = 404, self.path
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_: object) -> None:
        """Tests print nothing."""


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("model", ["m", "bare"])
def test_a_server_s_scores_come_in_the_order_of_the_texts(base_url: str, model: str) -> None:
    reranker = open_reranker(f"{base_url}?model={model}&version=3")

    assert (reranker.name, reranker.version) == (model, "3")
    assert reranker.scores("?", ["o", "", "ooo"]) == [1.0, 0.0, 3.0]
    assert _ids(_told(reranker=f"{base_url}?model={model}").recall("Ada"))[0] == "harbour"


def test_a_server_s_refusal_is_told(base_url: str) -> None:
    for reranker, problem in (
        (HttpReranker("m", base_url=base_url, api_key="wrong"), "401: no such key"),
        (HttpReranker("short", base_url=base_url), "gave no scores"),
        (HttpReranker("m", base_url=f"{base_url}/other"), "404"),
        (HttpReranker("m", base_url="http://127.0.0.1:9", timeout_seconds=5), "gave no scores"),
    ):
        with pytest.raises(RerankingFailed, match=problem):
            reranker.scores("?", ["o", "oo"])


# A model in a folder.


def test_a_cross_encoder_in_a_folder_tells_the_two_texts_apart(tmp_path: Path) -> None:
    heads: dict[str, tuple[int, ...]] = {
        "pooler.dense.weight": (8, 8),
        "pooler.dense.bias": (8,),
        "classifier.weight": (1, 8),
        "classifier.bias": (1,),
    }
    reranker = LocalReranker(_model(tmp_path, heads=heads), version="2")
    encoder = BertEncoder(tmp_path)
    ids, types = np.array([[2, 7, 3, 8, 9, 3]]), np.array([0, 0, 0, 1, 1, 1])
    hidden = encoder._hidden(ids, np.ones((1, 6), dtype=np.float32), types)[0, 0].astype(float)
    weights = {name: encoder._weights[name].astype(float) for name in heads}
    pooled = np.tanh(weights["pooler.dense.weight"] @ hidden + weights["pooler.dense.bias"])
    (plain,) = weights["classifier.weight"] @ pooled + weights["classifier.bias"]
    alone, *_ = reranker.scores("the", ["cafe."])
    together = reranker.scores("the", ["cafe.", "the " * 100, ""])

    assert (reranker.name, reranker.version) == (tmp_path.name, "2")
    assert alone == pytest.approx(plain, abs=1e-4)
    assert together[0] == pytest.approx(alone, abs=1e-4)
    assert RerankScores.of(reranker, "the", {"a": "cafe."}).scores["a"] == round(alone * 1_000_000)


def test_a_model_without_a_class_is_no_reranker(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="cross-encoder"):
        open_reranker(f"local:{_model(tmp_path)}")


def test_points_are_spread_between_the_least_and_the_most_and_lie_above_all_others() -> None:
    scores = RerankScores(reranker="r/1", scores={"a": -5, "b": 0, "c": 5})
    alike = RerankScores(reranker="r/1", scores={"a": 7, "b": 7})

    assert [scores.points_of(key, above=100, trust_percent=100) for key in "abcd"] == [
        100,
        100 + (1 << 19),
        100 + (1 << 20),
        None,
    ]
    assert scores.points_of("c", above=0, trust_percent=50) == 1 << 19
    assert [alike.points_of(key, above=3, trust_percent=100) for key in "ab"] == [3, 3]
