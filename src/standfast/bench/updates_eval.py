"""``standfast eval updates``: stories in which facts change, return, are denied, or only look alike.

Each story is told in a scope of its own, among everyday facts that have nothing to do with it. Then its
question is asked, of now and of the snapshot after the first telling. No model is asked. The stories ship in
two halves; the patterns of ``records/statements.txt`` were made with the first one only.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from standfast.clock import CountedIds, ManualClock
from standfast.errors import InvalidValue
from standfast.memory import Memory
from standfast.recall.package import RecallItem, RecallPackage
from standfast.records.vocabulary import Value

STORIES: Final = tuple(Path(__file__).parent / "data" / f"updates-{half}.jsonl" for half in "ab")
DEFAULT_TOKENS: Final = 300
EVERYDAY: Final = (
    "The printer on the second floor needs black toner.",
    "Lunch in the canteen starts around noon.",
    "The garden gate squeaks when it rains.",
    "The spare key is with the neighbour.",
    "The blue folder holds the insurance papers.",
    "The train to the coast leaves from platform four.",
)
"""What is told in every scope besides its story."""
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


class UpdatesScore(Value, frozen=True, kw_only=True):
    """What was measured on one set of stories, told in one form; shares are from 0 to 1.

    Attributes:
        in_package: The current value is in the package.
        first: The newest telling is ranked before the older ones that it replaces.
        first_in_text: It also stands before them in the text.
        marked: The older tellings that are shown are marked with what was said later.
        false_marks: Marks on anything else, in 1,000 records.
        then: The snapshot after the first telling gives the old value, unmarked.
        tokens: The mean length of the text.
    """

    stories: str
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


def evaluate_updates(
    stories: Sequence[Story],
    name: str,
    *,
    form: Form = "facts",
    tokens: int = DEFAULT_TOKENS,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> UpdatesScore:
    """Tell the stories to an empty memory, ask their questions, and measure the answers.

    Args:
        form: Whether each telling is remembered as a fact, or added as a message of a conversation.
    """
    sums: Counter[str] = Counter()
    with Memory.open(":memory:", clock=ManualClock(), ids=CountedIds(), traces=None) as memory:
        for number, story in enumerate(stories, 1):
            sums.update(_asked(memory, story, form, tokens))
            progress(number, len(stories))

    def share(what: str, of: str) -> float:
        return round(sums[what] / sums[of], 4) if sums[of] else 0.0

    return UpdatesScore(
        stories=name,
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
    )


def _asked(memory: Memory, story: Story, form: Form, tokens: int) -> Counter[str]:
    """The counts of one story."""
    scope = f"user/{story.story}"
    for text in EVERYDAY:
        memory.remember(text, scope=scope, time="2025-01-01T09:00:00Z")
    first_snapshot = 0
    for month, text in enumerate(story.told, 2):
        _tell(memory, text, scope, f"2025-{month:02}-05T09:00:00Z", form)
        first_snapshot = first_snapshot or memory.store.head()
    package = memory.recall(story.question, scope=scope, tokens=tokens)
    then = memory.at(first_snapshot).recall(story.question, scope=scope, tokens=tokens)
    assert isinstance(package, RecallPackage)
    assert isinstance(then, RecallPackage)
    shown = {item.excerpt: item for item in package.items}
    counts = Counter(stories=1, records=len(EVERYDAY) + len(story.told), tokens=package.text_tokens)
    counts["in_package"] = all(any(now in excerpt for excerpt in shown) for now in story.now)
    newest = story.told[-1]
    # What returns is as current as the first telling, which need not be marked then.
    older = story.told[1:-1] if story.kind == "return" else story.told[:-1]
    to_mark = [] if story.kind == "alike" else [shown[text] for text in older if text in shown]
    marked = [item for item in package.items if item.said_later]
    counts["false_marks"] = sum(item not in to_mark for item in marked)
    if story.kind != "alike":
        counts["changing"] = 1
        counts["to_mark"] = len(older)
        counts["marked"] = sum(item in marked for item in to_mark)
        if newest in shown:
            counts["first"] = all(shown[newest].rank < item.rank for item in to_mark)
            counts["first_in_text"] = all(
                _place(package.text, newest) < _place(package.text, item.excerpt) for item in to_mark
            )
        counts["then"] = any(_is_plain(item, story.told[0]) for item in then.items)
    return counts


def _tell(memory: Memory, text: str, scope: str, time: str, form: Form) -> None:
    if form == "facts":
        memory.remember(text, scope=scope, time=time, source={"kind": "user", "id": scope})
    else:
        memory.add([{"role": "user", "content": text, "time": time}], scope=scope, session=time[:10])


def _place(text: str, excerpt: str) -> int:
    """Where the line of an excerpt begins. It may also stand in the mark of another one."""
    lines = text.split("\n")
    return next(
        (at for at, line in enumerate(lines) if excerpt in line.partition(" (said later")[0]), len(lines)
    )


def _is_plain(item: RecallItem, text: str) -> bool:
    return item.excerpt == text and not item.said_later
