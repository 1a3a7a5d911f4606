"""How much of the evidence recall hands out: sets of questions, controllers, peers and token budgets.

Texts go in as a user would give them: facts by ``Memory.remember``, messages of a conversation by
``Memory.add`` with role, name and time, each corpus in a scope of its own, by the system's clock. Questions
go through ``Memory.recall``. A question's recall is the share of its evidence that is in the package; a
message that was stored in pieces counts if one of them is. Questions that nothing answers are counted by the
tokens that are spent on them. Intervals are percentile bootstraps over questions, from a fixed seed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from typing import Final

import msgspec

from standfast.bench.recall_peers import RecallPeer, peer_named
from standfast.bench.recall_sets import EvalCorpus, EvalQuestion, EvalSet
from standfast.bench.report import Plot
from standfast.bench.statistics import Mean, mean_of
from standfast.clock import Clock, SystemClock
from standfast.limits import MAX_RECALL_ITEMS
from standfast.memory import Memory
from standfast.memory.embedding import named_embedder
from standfast.recall.answers import Package
from standfast.recall.controllers import ControllerRegistry
from standfast.recall.embedders import Embedder
from standfast.records.requests import DEFAULT_CONTROLLER
from standfast.records.vocabulary import Value

DEFAULT_BUDGETS: Final = (250, 500, 1_000, 2_000, 4_000, 8_000)
_SCOPE: Final = "evaluation"
_FIRST: Final = 3


class RecallScore(Value, frozen=True, kw_only=True):
    """What a controller or a peer reached on a set with a budget.

    Attributes:
        recall: The mean share of a question's evidence that is in the package, with its 95 % interval.
        complete: The share of questions with all of their evidence.
        first_three: The share of questions with evidence among the first three items.
        text_tokens: The mean size of the text, estimated.
        unanswerable: How many questions nothing answers; ``unanswerable_tokens`` is the mean size of the
            text that they get.
        p50_ms: The median time of a recall, and ``p95_ms`` the time that 5 % exceed. The first recall of a
            corpus is left out.
    """

    set_name: str
    system: str
    tokens: int
    questions: int
    recall: Mean
    complete: float
    first_three: float
    text_tokens: float
    unanswerable: int
    unanswerable_tokens: float
    p50_ms: float
    p95_ms: float


class _AskedQuestion(msgspec.Struct):
    """What one question got: the ids of the corpus in their order, and the size of the text."""

    question: EvalQuestion
    ids: list[str]
    text_tokens: int
    seconds: float | None

    @property
    def recall(self) -> float:
        found = set(self.ids)
        return sum(one in found for one in self.question.evidence) / len(self.question.evidence)


_Ask = Callable[[EvalQuestion, int], tuple[list[str], int]]


def evaluate_recall(
    sets: Sequence[EvalSet],
    *,
    controllers: Sequence[str] = (DEFAULT_CONTROLLER,),
    peers: Sequence[str] = (),
    budgets: Sequence[int] = DEFAULT_BUDGETS,
    embedder: Embedder | str | None = None,
    clock: Clock | None = None,
    progress: Callable[[int, int], None] = lambda _, __: None,
) -> list[RecallScore]:
    """Ask every question of every controller and peer with every budget.

    Args:
        controllers: Versions of controllers, such as ``"hybrid-v1"``.
        peers: Other memories to compare with; see ``recall_peers.PEERS``.
        embedder: Makes the vectors of records and questions, also for peers; by default the shipped table.
        clock: Measures the time of each recall.
        progress: Called with the number of recalls that are done, and of all.
    """
    shipped = ControllerRegistry.shipped()
    for name in controllers:
        shipped.get(name)
    for name in peers:
        peer_named(name)
    timer = clock or SystemClock()
    vectors = named_embedder(embedder or "static")
    assert vectors is not None, "a name always gives an embedder"
    systems = [*controllers, *peers]
    per_question = len(systems) * len(budgets)
    total = per_question * sum(len(corpus.questions) for one in sets for corpus in one.corpora)
    done = 0
    scores = []
    for one in sets:
        answers = {(system, tokens): list[_AskedQuestion]() for system in systems for tokens in budgets}
        for corpus in one.corpora:
            with closing(Memory.open(":memory:", embedder=vectors)) as memory:
                memory_ids = _told(memory, corpus)
                for system in systems:
                    ask = (
                        _ask_peer(peer_named(system)(corpus, vectors), corpus)
                        if system in peers
                        else _ask_memory(memory, memory_ids, system)
                    )
                    for tokens in budgets:
                        for answer in _timed(ask, corpus.questions, tokens, timer):
                            answers[system, tokens].append(answer)
                            done += 1
                            progress(done, total)
        scores += [_score(one.name, system, tokens, given) for (system, tokens), given in answers.items()]
    return scores


def _timed(
    ask: _Ask, questions: Sequence[EvalQuestion], tokens: int, timer: Clock
) -> Iterator[_AskedQuestion]:
    for number, question in enumerate(questions):
        begun = timer.monotonic()
        ids, text_tokens = ask(question, tokens)
        seconds = timer.monotonic() - begun if number else None
        yield _AskedQuestion(question, ids, text_tokens, seconds)


def _told(memory: Memory, corpus: EvalCorpus) -> dict[str, str]:
    """Tell memory everything, and return the corpus's id of each record by its id in memory."""
    ids: dict[str, str] = {}
    for session, group in groupby(corpus.records, key=lambda one: one.session):
        records = list(group)
        if session is None:
            for one in records:
                answer = memory.remember(
                    one.text,
                    scope=_SCOPE,
                    subject=one.subject,
                    tags=one.tags,
                    source=one.source or {"kind": "user", "id": "evaluation"},
                    time=one.time,
                )
                if answer.memory_id is not None:
                    ids[answer.memory_id] = one.memory_id
        else:
            messages = [
                {"role": one.role, "content": one.text}
                | ({"name": one.speaker} if one.speaker else {})
                | ({"time": one.time} if one.time else {})
                for one in records
            ]
            added = memory.add(messages, scope=_SCOPE, session=session)
            for one, message in zip(records, added.messages, strict=True):
                ids |= dict.fromkeys(message.memory_ids, one.memory_id)
    return ids


def _ask_memory(memory: Memory, memory_ids: dict[str, str], controller: str) -> _Ask:
    def ask(question: EvalQuestion, tokens: int) -> tuple[list[str], int]:
        package = memory.recall(
            question.question,
            tokens=tokens,
            max_items=MAX_RECALL_ITEMS,
            scope=_SCOPE,
            controller=controller,
            now_utc=question.now_utc,
        )
        found = (memory_ids.get(one, "") for one in _ids(package))
        return list(dict.fromkeys(found)), package.text_tokens

    return ask


def _ids(package: Package) -> Iterator[str]:
    for item in package.items:
        yield item.memory_id
        yield from getattr(item, "also", ())


def _ask_peer(peer: RecallPeer, corpus: EvalCorpus) -> _Ask:
    sizes = {one.memory_id: -(-len(one.text.encode()) // 4) for one in corpus.records}

    def ask(question: EvalQuestion, tokens: int) -> tuple[list[str], int]:
        taken, spent = [], 0
        for memory_id in peer.ranked(question.question):
            if spent + sizes[memory_id] <= tokens:
                taken.append(memory_id)
                spent += sizes[memory_id]
        return taken, spent

    return ask


def _score(set_name: str, system: str, tokens: int, answers: Sequence[_AskedQuestion]) -> RecallScore:
    asked = [one for one in answers if one.question.evidence]
    unanswerable = [one.text_tokens for one in answers if not one.question.evidence]
    times = sorted(one.seconds for one in answers if one.seconds is not None) or [0.0]
    shares = [one.recall for one in asked]
    early = sum(any(each in one.ids[:_FIRST] for each in one.question.evidence) for one in asked)
    return RecallScore(
        set_name=set_name,
        system=system,
        tokens=tokens,
        questions=len(asked),
        recall=mean_of(shares),
        complete=sum(share == 1 for share in shares) / max(1, len(asked)),
        first_three=early / max(1, len(asked)),
        text_tokens=sum(one.text_tokens for one in asked) / max(1, len(asked)),
        unanswerable=len(unanswerable),
        unanswerable_tokens=sum(unanswerable) / max(1, len(unanswerable)),
        p50_ms=times[len(times) // 2] * 1_000,
        p95_ms=times[len(times) * 95 // 100] * 1_000,
    )


def recall_plot(scores: Sequence[RecallScore]) -> Plot:
    """Recall against the budget: a panel for each set, a line for each controller or peer, with intervals."""
    names = list(dict.fromkeys(one.set_name for one in scores))
    plot = Plot(5 * max(1, len(names)), 4, panels=max(1, len(names)))
    for axes, name in zip(plot.axes, names, strict=True):
        of_set = [one for one in scores if one.set_name == name]
        for system in dict.fromkeys(one.system for one in of_set):
            own = sorted((one for one in of_set if one.system == system), key=lambda one: one.tokens)
            budgets = [one.tokens for one in own]
            axes.plot(budgets, [one.recall.value for one in own], marker="o", label=system)
            axes.fill_between(
                budgets, [one.recall.low for one in own], [one.recall.high for one in own], alpha=0.15
            )
        axes.set_xscale("log", base=2)
        axes.set_xticks(budgets, [f"{one:,}" for one in budgets])
        axes.set_title(f"{name} ({of_set[0].questions} questions)")
        axes.set_xlabel("tokens")
        axes.set_ylim(0, 1.02)
        axes.legend(frameon=False)
    plot.axes[0].set_ylabel("share of the evidence in the text")
    plot.caption("Bands are 95 % intervals over questions.")
    return plot
