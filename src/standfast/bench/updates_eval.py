"""``standfast eval updates``: stories in which facts change, return, are denied, or only look alike.

Each story is told in a scope of its own, among everyday facts that have nothing to do with it. Then its
question is asked, of now and of the snapshot after the first telling. Users have many stories: those of one
language are told to one user between everyday talk, and each question is asked of all of it.

Without a model memory recalls what it was told. With one, facts are extracted from the messages, too: by a
model, or by an oracle that knows the stories, which is the most that extraction can add. A peer ranks the
same texts. The stories ship in two halves; the patterns of ``records/statements.txt`` were made with the
first one only.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from standfast.bench.recall_peers import RecallPeer, peer_named
from standfast.bench.recall_sets import EvalCorpus, EvalRecord
from standfast.bench.report import Plot
from standfast.clock import CountedIds, ManualClock
from standfast.errors import InvalidValue
from standfast.memory import Memory
from standfast.memory.embedding import named_embedder
from standfast.memory.extraction import ExtractedFact, FactExtractor, KnownFact
from standfast.memory.messages import SessionMessage
from standfast.recall.embedders import Embedder
from standfast.recall.package import RecallPackage
from standfast.recall.tokens import EstimatedCounter
from standfast.records.vocabulary import Value
from standfast.store.store import Store

_DATA: Final = Path(__file__).parent / "data"
STORIES: Final = tuple(_DATA / f"updates-{half}.jsonl" for half in "ab")
CHAT: Final = _DATA / "updates-chat.jsonl"
"""Everyday talk of users."""
DEFAULT_TOKENS: Final = 300
USER_TOKENS: Final = 500
"""The budget of a question of a user with many stories."""
EVERYDAY: Final = (
    "The printer on the second floor needs black toner.",
    "Lunch in the canteen starts around noon.",
    "The garden gate squeaks when it rains.",
    "The spare key is with the neighbour.",
    "The blue folder holds the insurance papers.",
    "The train to the coast leaves from platform four.",
)
"""What is told in every scope besides its story."""
RECALL: Final = "recall"
ORACLE: Final = "oracle"
Form = Literal["facts", "messages"]


class Story(Value, frozen=True, kw_only=True):
    """One story.

    Attributes:
        kind: ``change``, ``return``, ``denied``, or ``alike`` (nothing changes; it only looks so).
        told: What is said, in order, a month apart.
        now: What an answer must have.
        old: What was true before; empty if everything still is.
    """

    story: str
    language: str
    kind: Literal["change", "return", "denied", "alike"]
    told: tuple[str, ...]
    question: str
    now: tuple[str, ...]
    old: str = ""


class Talk(Value, frozen=True, kw_only=True):
    """What a user and an assistant say on an ordinary day."""

    language: str
    user: str
    assistant: str


class UpdatesScore(Value, frozen=True, kw_only=True):
    """What was measured on one set of stories, told in one form; shares are from 0 to 1.

    Attributes:
        system: ``recall`` (no model), ``oracle``, ``model``, or a peer.
        in_package: The current value is in the package.
        first: The newest telling is ranked before the older ones that it replaces.
        first_in_text: It also stands before them in the text.
        marked: The older tellings are marked with what was said later, or a model's fact has ended them.
        false_marks: Marks on anything else, in 1,000 records.
        then: The snapshot after the first telling gives the old value, unmarked.
        tokens: The mean length of the text.
        needed: Of users with many stories: questions whose current values are all in 500 tokens.
        user_tokens: What the texts of such a user have together, in the mean.
    """

    stories: str
    system: str
    form: Form
    count: int
    changing: int
    in_package: float
    first: float
    first_in_text: float
    marked: float
    false_marks: float
    then: float
    tokens: float
    needed: float
    user_tokens: float


def read_stories(path: Path) -> list[Story]:
    """Read a file of stories; ``InvalidValue`` names the line that is none."""
    stories = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(what=str(path), problem=f"it can't be read: {error}") from None
    for number, line in enumerate(lines, 1):
        try:
            stories.append(Story.from_json(msgspec.json.decode(line)))
        except (msgspec.DecodeError, InvalidValue) as error:
            raise InvalidValue(what=f"{path}, line {number}", problem=str(error)) from None
    return stories


# The systems that are measured.


class ShownTelling(NamedTuple):
    """One text of an answer, in rank order."""

    excerpt: str
    is_marked: bool


class UpdatesAnswer(NamedTuple):
    """What a system hands back for a question."""

    shown: list[ShownTelling]
    text: str
    tokens: int


class _System(Protocol):
    """A memory that is told stories."""

    ends: bool
    """Whether it can end what was told before, so that an older telling need not be shown at all."""

    def tell(
        self, text: str, scope: str, time: str, *, role: str = "user", in_story: bool = True
    ) -> None: ...

    def snapshot(self) -> int: ...

    def ask(self, question: str, scope: str, tokens: int, *, at: int | None = None) -> UpdatesAnswer: ...

    def size_tokens(self, scope: str) -> int: ...


class _Standfast:
    """Recall, without a model or with one that extracts facts from what is told."""

    def __init__(self, memory: Memory, form: Form, extractor: FactExtractor | None) -> None:
        self._memory, self._form, self._extractor = memory, form, extractor
        self.ends = extractor is not None

    def tell(self, text: str, scope: str, time: str, *, role: str = "user", in_story: bool = True) -> None:
        if self._form == "facts" or not in_story:
            source = {"kind": role, "id": scope} if in_story else None
            self._memory.remember(text, scope=scope, time=time, source=source)
        else:
            message = {"role": role, "content": text, "time": time}
            extract = self._extractor or False
            self._memory.add([message], scope=scope, session=time[:10], extract=extract)

    def snapshot(self) -> int:
        return self._memory.store.head()

    def ask(self, question: str, scope: str, tokens: int, *, at: int | None = None) -> UpdatesAnswer:
        view = self._memory.at(self._memory.store.head() if at is None else at)
        package = view.recall(question, scope=scope, tokens=tokens)
        assert isinstance(package, RecallPackage)
        shown = [ShownTelling(one.excerpt, bool(one.said_later)) for one in package.items]
        return UpdatesAnswer(shown, package.text, package.text_tokens)

    def size_tokens(self, scope: str) -> int:
        return _tokens_of([one.text for one in self._memory.records(scope=scope) if one.band == "LEDGER"])


class _Peer:
    """A memory of others. It has no snapshots and no marks."""

    def __init__(self, open_peer: Callable[[EvalCorpus, Embedder], RecallPeer], embedder: Embedder) -> None:
        self._open, self._embedder = open_peer, embedder
        self._told: dict[str, list[str]] = {}
        self._peers: dict[str, RecallPeer] = {}
        self.ends = False

    def tell(self, text: str, scope: str, time: str, *, role: str = "user", in_story: bool = True) -> None:
        del time, role, in_story
        self._told.setdefault(scope, []).append(text)

    def snapshot(self) -> int:
        return 0

    def ask(self, question: str, scope: str, tokens: int, *, at: int | None = None) -> UpdatesAnswer:
        texts = self._told[scope]
        if at is not None:
            return UpdatesAnswer([], "", 0)
        if scope not in self._peers:
            records = [EvalRecord(memory_id=str(number), text=one) for number, one in enumerate(texts)]
            corpus = EvalCorpus(name=scope, records=tuple(records), questions=())
            self._peers[scope] = self._open(corpus, self._embedder)
        chosen, size = list[str](), 0
        for name in self._peers[scope].ranked(question):
            size += _tokens_of([texts[int(name)]])
            if size > tokens:
                break
            chosen.append(texts[int(name)])
        return UpdatesAnswer([ShownTelling(one, False) for one in chosen], "\n".join(chosen), size)

    def size_tokens(self, scope: str) -> int:
        return _tokens_of(self._told[scope])


def _tokens_of(texts: Sequence[str]) -> int:
    return sum(map(EstimatedCounter().count, texts))


class OracleExtractor:
    """A model that knows the stories: the fact of a telling is the telling, and it replaces those before."""

    extractor_id = ORACLE

    def __init__(self, stories: Sequence[Story]) -> None:
        self._place_of: Mapping[str, tuple[Story, int]] = {
            text: (story, number) for story in stories for number, text in enumerate(story.told)
        }

    def extract(
        self,
        messages: Sequence[SessionMessage],
        *,
        scope: str,
        before: Sequence[SessionMessage],
        known: Sequence[KnownFact],
    ) -> list[ExtractedFact]:
        """The messages that are tellings, as facts."""
        del scope, before
        facts = []
        for one in messages:
            if one.text is None or one.text not in self._place_of:
                continue
            story, number = self._place_of[one.text]
            older = () if story.kind == "alike" else story.told[:number]
            replaced = tuple(fact.memory_id for fact in known if fact.text in older)
            facts.append(ExtractedFact(text=one.text, cites=(one.position,), replaces=replaced))
        return facts


# Measuring.


def evaluate_updates(
    stories: Sequence[Story],
    name: str,
    *,
    system: str = RECALL,
    form: Form = "facts",
    tokens: int = DEFAULT_TOKENS,
    open_extractor: Callable[[Store], FactExtractor | None] | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> UpdatesScore:
    """Tell the stories to an empty memory, ask their questions, and measure the answers.

    Args:
        system: ``recall``, ``oracle``, ``model``, or the name of a peer.
        form: Whether each telling is remembered as a fact, or added as a message of a conversation.
        open_extractor: Opens the model of the system ``model``.
    """
    with Memory.open(":memory:", clock=ManualClock(), ids=CountedIds(), traces=None) as memory:
        answering = _system_named(system, form, memory, stories, open_extractor)
        sums: Counter[str] = Counter()
        for number, story in enumerate(stories, 1):
            sums.update(_asked(answering, story, tokens))
            progress(number, len(stories))
        sums.update(_asked_of_users(answering, stories))

    def share(what: str, of: str) -> float:
        return round(sums[what] / sums[of], 4) if sums[of] else 0.0

    return UpdatesScore(
        stories=name,
        system=system,
        form=form,
        count=len(stories),
        changing=sums["changing"],
        in_package=share("in_package", "stories"),
        first=share("first", "changing"),
        first_in_text=share("first_in_text", "changing"),
        marked=share("marked", "to_mark"),
        false_marks=round(1000 * sums["false_marks"] / max(1, sums["records"]), 2),
        then=share("then", "changing"),
        tokens=share("tokens", "stories"),
        needed=share("needed", "user_questions"),
        user_tokens=share("user_tokens", "users"),
    )


def _system_named(
    name: str,
    form: Form,
    memory: Memory,
    stories: Sequence[Story],
    open_extractor: Callable[[Store], FactExtractor | None] | None,
) -> _System:
    if name == RECALL:
        return _Standfast(memory, form, None)
    if name == ORACLE:
        return _Standfast(memory, form, OracleExtractor(stories))
    if open_extractor is not None:
        return _Standfast(memory, form, open_extractor(memory.store))
    embedder = named_embedder("static")
    assert embedder is not None, "the table ships"
    return _Peer(peer_named(name), embedder)


def _asked(system: _System, story: Story, tokens: int) -> Counter[str]:
    """The counts of one story."""
    scope = f"user/{story.story}"
    for text in EVERYDAY:
        system.tell(text, scope, "2025-01-01T09:00:00Z", in_story=False)
    first_snapshot = 0
    for month, text in enumerate(story.told, 2):
        system.tell(text, scope, f"2025-{month:02}-05T09:00:00Z")
        first_snapshot = first_snapshot or system.snapshot()
    answer = system.ask(story.question, scope, tokens)
    then = system.ask(story.question, scope, tokens, at=first_snapshot)
    # A text may be there twice, as a message and as a fact; the first is what a reader meets.
    rank: dict[str, int] = {}
    for number, one in enumerate(answer.shown):
        rank.setdefault(one.excerpt, number)
    counts = Counter(stories=1, records=len(EVERYDAY) + len(story.told), tokens=answer.tokens)
    counts["in_package"] = all(any(now in excerpt for excerpt in rank) for now in story.now)
    newest = story.told[-1]
    # What returns is as current as the first telling, which need not be marked then.
    older = story.told[1:-1] if story.kind == "return" else story.told[:-1]
    to_mark = set() if story.kind == "alike" else {text for text in older if text in rank}
    marked = {one.excerpt for one in answer.shown if one.is_marked}
    unmarked = {one.excerpt for one in answer.shown if not one.is_marked}
    counts["false_marks"] = len(marked - to_mark)
    if story.kind != "alike":
        counts["changing"] = 1
        counts["to_mark"] = len(older)
        settled = marked & to_mark if not system.ends else set(older) - unmarked
        counts["marked"] = len(settled) if newest in rank or not system.ends else 0
        if newest in rank:
            counts["first"] = all(rank[newest] < rank[text] for text in to_mark)
            counts["first_in_text"] = all(
                _place(answer.text, newest) < _place(answer.text, text) for text in to_mark
            )
        counts["then"] = any(one.excerpt == story.told[0] and not one.is_marked for one in then.shown)
    return counts


def _asked_of_users(system: _System, stories: Sequence[Story]) -> Counter[str]:
    """The counts of users who have all stories of a language."""
    counts: Counter[str] = Counter()
    talks = [Talk.from_json(msgspec.json.decode(line)) for line in CHAT.read_text("utf-8").splitlines()]
    for language in dict.fromkeys(story.language for story in stories):
        scope, own = f"many/{language}", [story for story in stories if story.language == language]
        most = max(len(story.told) for story in own)
        tellings = [story.told[place] for place in range(most) for story in own if place < len(story.told)]
        talk = [one for one in talks if one.language == language]
        for number, text in enumerate(tellings):
            day = f"2025-{2 + number // 28:02}-{1 + number % 28:02}"
            system.tell(text, scope, f"{day}T09:00:00Z")
            if number < len(talk):
                system.tell(talk[number].user, scope, f"{day}T09:05:00Z")
                system.tell(talk[number].assistant, scope, f"{day}T09:06:00Z", role="assistant")
        for story in own:
            excerpts = [one.excerpt for one in system.ask(story.question, scope, USER_TOKENS).shown]
            counts["needed"] += all(any(now in one for one in excerpts) for now in story.now)
        counts.update(users=1, user_questions=len(own), user_tokens=system.size_tokens(scope))
    return counts


def _place(text: str, excerpt: str) -> int:
    """Where the line of an excerpt begins. It may also stand in the mark of another one."""
    lines = text.split("\n")
    return next(
        (at for at, line in enumerate(lines) if excerpt in line.partition(" (said later")[0]), len(lines)
    )


def updates_plot(scores: Sequence[UpdatesScore]) -> Plot:
    """What each system reached: a panel for each set of stories, a group of bars for each figure."""
    figures = ("in_package", "first", "marked", "then", "needed")
    names = list(dict.fromkeys(one.stories for one in scores))
    plot = Plot(6 * max(1, len(names)), 4, panels=max(1, len(names)))
    for axes, name in zip(plot.axes, names, strict=True):
        own = [one for one in scores if one.stories == name]
        width = 0.8 / max(1, len(own))
        for number, one in enumerate(own):
            places = [place + width * (number - (len(own) - 1) / 2) for place in range(len(figures))]
            values = [getattr(one, figure) for figure in figures]
            axes.bar(places, values, width, label=f"{one.system}, {one.form}")
        axes.set_xticks(range(len(figures)), [figure.replace("_", " ") for figure in figures])
        axes.set_title(f"{name} ({own[0].count} stories)")
        axes.set_ylim(0, 1.02)
        axes.legend(frameon=False, fontsize=7)
    plot.axes[0].set_ylabel("share")
    plot.caption(
        "Peers have neither marks nor snapshots. The oracle knows the stories: it is an upper bound."
    )
    return plot
