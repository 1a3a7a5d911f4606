"""Cues: what small words say about who is meant. By them recall knows whose messages a question is about,
whom a message addresses by name, and which instructions of a user stand for every later question.

The words are data: ``words/askers.txt`` and ``words/standing.txt``.
"""

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from standfast.recall.word_lists import word_sections

MAX_PHRASE_WORDS: Final = 5
_ADDRESS: Final = re.compile(
    r"(?:(?P<opening>^|[.!?\n]\s*)|(?<=\s))(?P<before>\w+(?: \w+)?)(?P<comma>,?) (?P<name>\w[\w'’-]+)"
    r"(?=(?P<end>[!?.,]|$))"
)


ROLE_NAMES: Final = frozenset({"user", "human", "assistant", "ai", "model", "bot"})
"""Speakers that name nobody: a message without a name has its role instead."""


class SpeakerRole(IntEnum):
    """Who said a record in a conversation: the user, the assistant, or neither."""

    NONE = 0
    USER = 1
    ASSISTANT = 2


def asked_role(words: Sequence[str], language: str) -> SpeakerRole:
    """Whose messages a question is about, by its pronouns.

    "What did you suggest" asks about the assistant, "where do I live" about the user, and "your plan" about
    the assistant, unless something is asked to be done: "can you explain".
    """
    sections = word_sections("askers")
    said, user, assistant, request = (
        sections.get(f"{language} {kind}", ()) for kind in ("said", "user", "assistant", "request")
    )
    spoken = {*words, *map("_".join, pairwise(words))}
    if not spoken.isdisjoint(said):
        return SpeakerRole.ASSISTANT
    if not spoken.isdisjoint(user):
        return SpeakerRole.USER
    is_about_assistant = spoken.isdisjoint(request) and not spoken.isdisjoint(assistant)
    return SpeakerRole.ASSISTANT if is_about_assistant else SpeakerRole.NONE


def preference_words(words: Sequence[str], language: str) -> tuple[str, ...]:
    """The words that say what somebody prefers, if a question asks for advice or help; none otherwise."""
    sections = word_sections("askers")
    spoken = {*words, *map("_".join, pairwise(words))}
    if spoken.isdisjoint(sections.get(f"{language} advice", ())):
        return ()
    return sections[f"{language} preference"]


class _StandingWords(NamedTuple):
    """The words of standing instructions in one language."""

    always: frozenset[str]
    asks: frozenset[str]
    lead: frozenset[str]
    verbs: frozenset[str]
    last: frozenset[str]
    greetings: frozenset[str]
    signs: frozenset[str]
    """The first words of what makes an instruction stand. A text without one has no such instruction."""


@lru_cache(maxsize=32)
def _standing_words(language: str) -> _StandingWords:
    kinds = ("always", "asks", "lead", "verbs", "last", "greetings")
    sections = word_sections("standing")
    always, asks, lead, verbs, last, greetings = (
        frozenset(sections.get(f"{language} {kind}", ())) for kind in kinds
    )
    signs = frozenset(phrase.partition("_")[0] for phrase in always | asks)
    return _StandingWords(always, asks, lead, verbs, last, greetings, signs)


def may_stand(words: Sequence[str], language: str) -> bool:
    """Whether a text may have a standing instruction, at a glance."""
    return not _standing_words(language).signs.isdisjoint(words)


def is_standing_instruction(words: Sequence[str], language: str) -> bool:
    """Whether a sentence tells an assistant what to do every time: "Always answer in German", "Use metric
    units when I ask about sizes".

    It has a word that makes it stand, and begins with a verb that tells an assistant what to do, or with
    words that lead to one.

    Args:
        words: The words of the sentence, folded.
    """
    known = _standing_words(language)
    phrases = {
        "_".join(words[at : at + size])
        for at in range(len(words))
        for size in range(1, MAX_PHRASE_WORDS + 1)
        if at + size <= len(words)
    }
    if phrases.isdisjoint(known.always) and phrases.isdisjoint(known.asks):
        return False
    verb = _first_beyond(words, known)
    begins = known.verbs.intersection((*words[verb : verb + 1], "_".join(words[verb : verb + 2])))
    return bool(begins) or (verb > 0 and words[-1] in known.last)


def _first_beyond(words: Sequence[str], known: _StandingWords) -> int:
    """The place of the first word that does not lead to a verb, as "please" and "you should" do."""
    at = 0
    while at < len(words):
        sizes = (
            size
            for size in range(MAX_PHRASE_WORDS, 0, -1)
            if (phrase := "_".join(words[at : at + size])) in known.lead or phrase in known.always
        )
        size = next(sizes, 0)
        if not size:
            break
        at += size
    return at


def addressed_names(text: str, language: str) -> Iterator[str]:
    """The names that a message addresses somebody by, as in "Hey Ada!" and "That is great, Ada".

    A name is one word with a capital letter. It stands behind a greeting, or behind a comma at the end of a
    sentence; what stands before the comma is no name itself ("Portland, Oregon.").
    """
    greetings = _standing_words(language).greetings
    for found in _ADDRESS.finditer(text):
        name, before = found["name"], found["before"]
        if not name[0].isupper():
            continue
        is_greeted = found["opening"] is not None and before.lower().replace(" ", "_") in greetings
        is_called = bool(found["comma"]) and found["end"] != ","
        is_called = is_called and (before.split()[-1][0].islower() or found["opening"] is not None)
        if is_greeted or is_called:
            yield name
