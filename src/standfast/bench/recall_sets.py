"""Sets of questions for the evaluation of recall, and the files that they are read from.

Four formats are read:

- **plain**: JSON lines. A line with ``text`` is a record: ``memory_id`` and ``text``, and optionally
  ``time``, ``subject``, ``tags`` and ``source``; with a ``session`` it is a message of a conversation and may
  have a ``role`` and a ``speaker``. A line with ``question`` has ``evidence``, the ids of the records that
  answer it; an empty list means that nothing does. ``corpus`` tells corpora apart.
- **LoCoMo**: a JSON file of one conversation between two people, or of a list of them. Questions of category
  5, which are meant to have no answer, have no evidence.
- **BEAM**: a folder of one chat with an assistant (``chat.json`` and ``probing_questions``).
- **SQuAD**: a JSON file of paragraphs with questions. Each article is a corpus.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from standfast.errors import InvalidValue
from standfast.records.canon import utc_text
from standfast.records.vocabulary import Value

SHIPPED: Final = tuple(
    Path(__file__).parent / "data" / f"recall-{name}.jsonl"
    for name in ("facts-a", "facts-b", "chat", "handbook")
)
"""The sets that ship with Standfast: short facts asked in other words (two halves), a chat, a handbook."""
_NO_ANSWER: Final = 5


class EvalRecord(Value, frozen=True, kw_only=True):
    """Something that memory is told: a fact, or with a ``session`` a message of a conversation."""

    memory_id: str
    text: str
    time: str | None = None
    subject: str | None = None
    tags: tuple[str, ...] = ()
    source: dict[str, Any] | None = None
    session: str | None = None
    role: str = "user"
    speaker: str | None = None


class EvalQuestion(Value, frozen=True, kw_only=True):
    """A question, and the ids of the records that answer it; none if nothing does."""

    question: str
    evidence: tuple[str, ...]
    now_utc: str | None = None


class EvalCorpus(Value, frozen=True, kw_only=True):
    """Records of one scope, and questions about them."""

    name: str
    records: tuple[EvalRecord, ...]
    questions: tuple[EvalQuestion, ...]


class EvalSet(Value, frozen=True, kw_only=True):
    """Corpora of one kind, which are measured together."""

    name: str
    corpora: tuple[EvalCorpus, ...]


def read_set(path: Path) -> EvalSet:
    """Read a file or folder in any of the formats; ``InvalidValue`` names what is wrong with it."""
    try:
        corpora = _beam(path) if path.is_dir() else _file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(what=str(path), problem=f"it can't be read: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"it is in none of the formats that docs/recall.md describes: {error!r}"
        raise InvalidValue(what=str(path), problem=problem) from None
    if not any(one.questions for one in corpora):
        raise InvalidValue(what=str(path), problem="it has no question with evidence among its records")
    return EvalSet(name=path.stem, corpora=tuple(corpora))


def without_names_and_times(corpora: EvalSet) -> EvalSet:
    """The same conversations as plain messages: no names and no times, the first speaker as the user."""
    return msgspec.structs.replace(
        corpora,
        name=f"{corpora.name}, plain",
        corpora=tuple(
            msgspec.structs.replace(one, records=tuple(_plain_messages(one.records)))
            for one in corpora.corpora
        ),
    )


def _plain_messages(records: Sequence[EvalRecord]) -> Iterator[EvalRecord]:
    first = next((one.speaker for one in records if one.speaker), None)
    for one in records:
        role = one.role if one.speaker is None else "user" if one.speaker == first else "assistant"
        yield msgspec.structs.replace(one, role=role, speaker=None, time=None)


def _file(path: Path) -> list[EvalCorpus]:
    text = path.read_text(encoding="utf-8")
    try:
        whole = json.loads(text)
    except json.JSONDecodeError:
        return _plain(path, text)
    if isinstance(whole, dict) and isinstance(whole.get("data"), list):
        return [_article(article, number) for number, article in enumerate(whole["data"], 1)]
    talks = whole if isinstance(whole, list) else [whole]
    if talks and all(isinstance(one, dict) and "qa" in one for one in talks):
        return [_locomo(talk, f"{path.stem}/{number}") for number, talk in enumerate(talks, 1)]
    return _plain(path, text)


def _corpus(name: str, records: Sequence[EvalRecord], questions: Iterable[EvalQuestion]) -> EvalCorpus:
    """A corpus without the questions whose evidence is not among its records."""
    ids = {one.memory_id for one in records}
    if len(ids) < len(records):
        raise InvalidValue(what=f"corpus {name!r:.80}", problem="a memory_id stands there twice")
    kept = []
    for one in questions:
        known = tuple(each for each in one.evidence if each in ids)
        if known or not one.evidence:
            kept.append(msgspec.structs.replace(one, evidence=known))
    return EvalCorpus(name=name, records=tuple(records), questions=tuple(kept))


def _plain(path: Path, text: str) -> list[EvalCorpus]:
    records: dict[str, list[EvalRecord]] = {}
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
                records.setdefault(corpus, []).append(EvalRecord.from_json(fields))
        except (json.JSONDecodeError, AttributeError, TypeError, InvalidValue) as error:
            problem = (
                f"line {number} is neither a record (memory_id, text) nor a question (question, evidence):"
                f" {error}"
            )
            raise InvalidValue(what=str(path), problem=problem) from None
    return [_corpus(name or path.stem, records[name], questions.get(name, [])) for name in records]


def _locomo(talk: Mapping[str, Any], name: str) -> EvalCorpus:
    sessions = talk.get("conversation", talk)
    keys = sorted(
        (key for key in sessions if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key[8:])
    )
    records = [
        EvalRecord(
            memory_id=turn["dia_id"],
            text=turn["text"],
            time=_instant(sessions[f"{key}_date_time"], "%I:%M %p on %d %B, %Y"),
            session=key,
            speaker=turn["speaker"],
        )
        for key in keys
        if isinstance(sessions[key], list)
        for turn in sessions[key]
    ]
    questions = []
    for qa in talk["qa"]:
        named = [each for one in qa.get("evidence", []) for each in re.findall(r"D\d+:\d+", one)]
        if qa.get("category") == _NO_ANSWER:
            questions.append(EvalQuestion(question=qa["question"], evidence=()))
        elif named:
            questions.append(EvalQuestion(question=qa["question"], evidence=tuple(dict.fromkeys(named))))
    return _corpus(str(talk.get("sample_id", name)), records, questions)


def _beam(folder: Path) -> list[EvalCorpus]:
    batches = json.loads((folder / "chat.json").read_text(encoding="utf-8"))
    asked = json.loads((folder / "probing_questions" / "probing_questions.json").read_text(encoding="utf-8"))
    records = []
    for batch in batches:
        anchors = (turn["time_anchor"] for pair in batch["turns"] for turn in pair if turn.get("time_anchor"))
        anchor = next(anchors, None)
        when = None if anchor is None else _instant(anchor, "%B-%d-%Y")
        for turn in (turn for pair in batch["turns"] for turn in pair):
            text = str(turn["content"]).split(" ->->", maxsplit=1)[0]
            records.append(
                EvalRecord(
                    memory_id=str(turn["id"]),
                    text=text,
                    time=when,
                    session=f"batch {batch['batch_number']}",
                    role=turn["role"],
                )
            )
    questions = []
    for kind, group in asked.items():
        for one in group:
            evidence = tuple(dict.fromkeys(map(str, _whole_numbers(one.get("source_chat_ids")))))
            if evidence or kind == "abstention":
                questions.append(EvalQuestion(question=one["question"], evidence=evidence))
    return [_corpus(folder.name, records, questions)]


def _whole_numbers(nested: Any) -> Iterator[int]:
    """Every whole number in lists and objects, which is how BEAM names messages."""
    if isinstance(nested, int):
        yield nested
    elif isinstance(nested, Mapping):
        for one in nested.values():
            yield from _whole_numbers(one)
    elif isinstance(nested, list):
        for one in nested:
            yield from _whole_numbers(one)


def _article(article: Mapping[str, Any], number: int) -> EvalCorpus:
    records, questions = [], []
    for place, paragraph in enumerate(article["paragraphs"]):
        memory_id = f"{number}.{place}"
        records.append(EvalRecord(memory_id=memory_id, text=paragraph["context"]))
        questions += [
            EvalQuestion(question=one["question"], evidence=(memory_id,))
            for one in paragraph["qas"]
            if not one.get("is_impossible")
        ]
    return _corpus(str(article.get("title", number)), records, questions)


def _instant(text: str, form: str) -> str:
    return utc_text(datetime.strptime(text, form).replace(tzinfo=UTC))
