"""How much of the evidence recall hands out: questions with evidence ids, controllers and token budgets.

Two formats are read:

- **plain**: JSON lines. A line with ``text`` is a record (``memory_id``, ``text``, and optionally ``ts_utc``,
  ``tags``, ``subject``, ``source``, ``session``, ``position``, ``speaker``); a line with ``question`` has
  ``evidence``, the ids of the records that answer it. ``corpus`` tells corpora apart.
- **LoCoMo**: a JSON file of one conversation, or of a list of them, as that benchmark publishes it. Each turn
  is a record. Questions without evidence, and those that are meant to have no answer (category 5), are left
  out.

Each corpus becomes a store in memory, and questions go through the same reader as ``Memory.recall``. A
question's recall is the share of its evidence among the selected records. Intervals are percentile bootstraps
over questions, from a fixed seed.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from standfast.bench.report import Plot
from standfast.bench.statistics import Mean, mean_of
from standfast.clock import Clock, ManualClock, SystemClock
from standfast.errors import InvalidValue
from standfast.limits import DEFAULT_MAX_ITEMS
from standfast.memory.embedding import MemoryVectors, named_embedder
from standfast.memory.snapshot_view import SnapshotReader, SnapshotView
from standfast.recall.answers import Package
from standfast.recall.controllers import ControllerRegistry
from standfast.recall.embedders import Embedder
from standfast.recall.package import RecallPackage
from standfast.records.canon import utc_text
from standfast.records.requests import DEFAULT_CONTROLLER
from standfast.records.scopes import SHARED, scoped_key
from standfast.records.vocabulary import ActionType, Band, Record, Value, Verdict
from standfast.store.commit import Commit, Write
from standfast.store.store import Store, open_store

SAMPLE: Final = Path(__file__).parent / "data" / "recall-sample.jsonl"
"""A small set that ships with Standfast."""
DEFAULT_BUDGETS: Final = (500, 1_000, 2_000)
_NAMESPACE: Final = "evaluation"
_COMMIT_RECORDS: Final = 1_000
_NO_ANSWER: Final = 5


class EvalQuestion(Value, frozen=True, kw_only=True):
    """A question, and the ids of the records that answer it."""

    question: str
    evidence: tuple[str, ...]
    now_utc: str | None = None


class EvalCorpus(Value, frozen=True, kw_only=True):
    """Records, and questions about them."""

    name: str
    records: tuple[Record, ...]
    questions: tuple[EvalQuestion, ...]


class RecallScore(Value, frozen=True, kw_only=True):
    """What a controller reached with a budget.

    Attributes:
        recall: The mean share of a question's evidence that was selected, with its 95 % interval.
        complete: The share of questions with all of their evidence.
        text_tokens: The mean size of the text, estimated.
        frame_share: The mean share of the text that is not excerpts, of questions that found something.
        p50_ms: The median time of a recall, and ``p95_ms`` the time that 5 % exceed. The first recall of a
            corpus, which builds the index, is left out.
    """

    controller: str
    tokens: int
    questions: int
    recall: Mean
    complete: float
    text_tokens: float
    frame_share: float
    p50_ms: float
    p95_ms: float


def read_corpora(path: Path) -> list[EvalCorpus]:
    """Read a file in either format; ``InvalidValue`` names what is wrong with it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(what=str(path), problem=f"it can't be read: {error}") from None
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        corpora = _plain(path, text)
    else:
        talks = whole if isinstance(whole, list) else [whole]
        if all(isinstance(one, dict) and "qa" in one for one in talks):
            corpora = [_locomo(talk, f"{path.stem}/{number}") for number, talk in enumerate(talks, 1)]
        else:
            corpora = _plain(path, text)
    if not any(one.questions for one in corpora):
        raise InvalidValue(what=str(path), problem="it has no question with evidence among its records")
    return corpora


def _plain(path: Path, text: str) -> list[EvalCorpus]:
    records: dict[str, list[Record]] = {}
    questions: dict[str, list[EvalQuestion]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            corpus = fields.pop("corpus", "")
            if "question" in fields:
                questions.setdefault(corpus, []).append(EvalQuestion.from_json(fields))
            else:
                records.setdefault(corpus, []).append(
                    Record.from_json({"verdict": Verdict.SEAL.value, **fields})
                )
        except (json.JSONDecodeError, AttributeError, TypeError, InvalidValue) as error:
            problem = (
                f"line {number} is neither a record (memory_id, text) nor a question (question, evidence):"
                f" {error}"
            )
            raise InvalidValue(what=str(path), problem=problem) from None
    return [_corpus(name or path.stem, records.get(name, []), questions.get(name, [])) for name in records]


def _corpus(name: str, records: Sequence[Record], questions: Iterable[EvalQuestion]) -> EvalCorpus:
    """A corpus whose questions have evidence among its records."""
    ids = {one.memory_id for one in records}
    if len(ids) < len(records):
        raise InvalidValue(what=f"corpus {name!r:.80}", problem="a memory_id stands there twice")
    known = (
        msgspec.structs.replace(one, evidence=tuple(each for each in one.evidence if each in ids))
        for one in questions
    )
    return EvalCorpus(
        name=name, records=tuple(records), questions=tuple(one for one in known if one.evidence)
    )


def _locomo(talk: dict[str, Any], name: str) -> EvalCorpus:
    sessions = talk.get("conversation", talk)
    records = []
    for key in sorted(sessions):
        if re.fullmatch(r"session_\d+", key) and isinstance(sessions[key], list):
            when = datetime.strptime(sessions[f"{key}_date_time"], "%I:%M %p on %d %B, %Y").replace(
                tzinfo=UTC
            )
            for position, turn in enumerate(sessions[key]):
                records.append(
                    Record(
                        memory_id=turn["dia_id"],
                        text=turn["text"],
                        ts_utc=utc_text(when),
                        session=key,
                        position=position,
                        speaker=turn["speaker"],
                        verdict=Verdict.SEAL,
                    )
                )
    questions = [
        EvalQuestion(
            question=qa["question"],
            evidence=tuple(
                dict.fromkeys(each for one in qa.get("evidence", []) for each in re.findall(r"D\d+:\d+", one))
            ),
        )
        for qa in talk["qa"]
        if qa.get("category") != _NO_ANSWER
    ]
    return _corpus(str(talk.get("sample_id", name)), records, questions)


def evaluate_recall(
    corpora: Sequence[EvalCorpus],
    *,
    controllers: Sequence[str] = (DEFAULT_CONTROLLER,),
    budgets: Sequence[int] = DEFAULT_BUDGETS,
    max_items: int = DEFAULT_MAX_ITEMS,
    registry: ControllerRegistry | None = None,
    embedder: Embedder | str | None = None,
    clock: Clock | None = None,
    progress: Callable[[int, int], None] = lambda _, __: None,
) -> list[RecallScore]:
    """Ask every question of every controller with every budget.

    Args:
        registry: Where controllers are found; by default those that ship.
        embedder: Makes the vectors that ``hybrid-v1`` needs.
        clock: Measures the time of each recall.
        progress: Called with the number of recalls that are done, and of all.
    """
    known = ControllerRegistry.shipped() if registry is None else registry
    for name in controllers:
        known.get(name)
    timer = clock or SystemClock()
    asked = {(name, tokens): list[_Asked]() for name in controllers for tokens in budgets}
    total = len(asked) * sum(len(corpus.questions) for corpus in corpora)
    for corpus in corpora:
        with closing(open_store(":memory:", create=True, clock=ManualClock())) as store:
            view = _filled(store, corpus, known, named_embedder(embedder))
            for (name, tokens), answers in asked.items():
                is_first = True
                for question in corpus.questions:
                    begun = timer.monotonic()
                    package = view.recall(
                        question.question,
                        tokens=tokens,
                        max_items=max_items,
                        controller=name,
                        now_utc=question.now_utc,
                    )
                    seconds = None if is_first else timer.monotonic() - begun
                    answers.append(_asked(question, package, seconds))
                    is_first = False
                    progress(sum(map(len, asked.values())), total)
    return [_score(name, tokens, answers) for (name, tokens), answers in asked.items()]


class _Asked(msgspec.Struct):
    """What one recall gave."""

    recall: float
    text_tokens: int
    frame_share: float | None
    seconds: float | None


def _filled(
    store: Store, corpus: EvalCorpus, controllers: ControllerRegistry, embedder: Embedder | None
) -> SnapshotView:
    vectors = MemoryVectors(store, _NAMESPACE, embedder, warn=lambda _: None)
    for part in range(0, len(corpus.records), _COMMIT_RECORDS):
        writes = [
            Write.of(
                _NAMESPACE,
                scoped_key(Band.LEDGER, SHARED, one.memory_id),
                ActionType.WRITE,
                one.as_json(),
            )
            for one in corpus.records[part : part + _COMMIT_RECORDS]
        ]
        store.commit(
            Commit.of(
                run_id=f"part-{part}", memory_snapshot_id=store.head(), policy_set_id="none", writes=writes
            )
        )
    if embedder is not None:
        vectors.fill(by="standfast eval recall")  # It raises what a commit would only warn of.
    reader = SnapshotReader(store, _NAMESPACE, law_at=lambda _: (), controllers=controllers, vectors=vectors)
    return SnapshotView(reader, store.head())


def _asked(question: EvalQuestion, package: Package, seconds: float | None) -> _Asked:
    found = set(_ids(package.items))
    size = len(package.text.encode())
    shown = sum(len(item.excerpt.encode()) for item in package.items)
    return _Asked(
        recall=len(found & set(question.evidence)) / len(question.evidence),
        text_tokens=package.text_tokens,
        frame_share=1 - shown / size if size and isinstance(package, RecallPackage) else None,
        seconds=seconds,
    )


def _ids(items: Sequence[Any]) -> Iterator[str]:
    for item in items:
        yield item.memory_id
        yield from getattr(item, "also", ())


def _score(controller: str, tokens: int, answers: Sequence[_Asked]) -> RecallScore:
    times = sorted(one.seconds for one in answers if one.seconds is not None) or [0.0]
    frames = [one.frame_share for one in answers if one.frame_share is not None]
    return RecallScore(
        controller=controller,
        tokens=tokens,
        questions=len(answers),
        recall=mean_of([one.recall for one in answers]),
        complete=sum(one.recall == 1 for one in answers) / max(1, len(answers)),
        text_tokens=sum(one.text_tokens for one in answers) / max(1, len(answers)),
        frame_share=sum(frames) / max(1, len(frames)),
        p50_ms=times[len(times) // 2] * 1_000,
        p95_ms=times[len(times) * 95 // 100] * 1_000,
    )


def recall_plot(scores: Sequence[RecallScore]) -> Plot:
    """Recall against the budget, a line for each controller, with intervals."""
    plot = Plot(6, 4)
    axes = plot.axes[0]
    for name in dict.fromkeys(one.controller for one in scores):
        own = sorted((one for one in scores if one.controller == name), key=lambda one: one.tokens)
        budgets, means = [one.tokens for one in own], [one.recall.value for one in own]
        axes.plot(budgets, means, marker="o", label=name)
        axes.fill_between(
            budgets, [one.recall.low for one in own], [one.recall.high for one in own], alpha=0.15
        )
    axes.set_xlabel("tokens")
    axes.set_ylabel("evidence in the package")
    axes.set_ylim(0, 1)
    axes.legend(frameon=False)
    plot.caption(f"{scores[0].questions} questions; bands are 95 % intervals" if scores else "")
    return plot
