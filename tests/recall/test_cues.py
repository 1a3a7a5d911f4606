"""Cues: whom a message addresses by name, and which instructions of a user stand for every later question."""

from typing import Any

import pytest

from standfast import Memory, RecallPackage
from standfast.recall.analysis import LANGUAGES, words_of
from standfast.recall.cues import addressed_names, is_standing_instruction, may_stand, preference_words
from standfast.recall.word_lists import word_sections

TEAS = [f"The tea of week {number} is on the third shelf of the cupboard." for number in range(200)]


def _recalled(memory: Memory, query: str, tokens: int = 400, **options: Any) -> RecallPackage:
    package = memory.recall(query, scope="user/ada", tokens=tokens, **options)
    assert isinstance(package, RecallPackage)
    return package


def _with_teas() -> Memory:
    memory = Memory.open(":memory:")
    memory.add([{"role": "user", "content": tea} for tea in TEAS], scope="user/ada", session="teas")
    return memory


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("english", "Always answer in German."),
        ("english", "Please never use emojis!"),
        ("english", "From now on, reply in short sentences."),
        ("english", "Don't ever call me Bob."),
        ("english", "You should always cite your sources."),
        ("english", "Use metric units whenever I ask about sizes."),
        ("english", "Include version numbers when I ask about libraries."),
        ("german", "Antworte immer auf Deutsch."),
        ("german", "Bitte immer auf Deutsch antworten."),
        ("german", "Verwende ab jetzt metrische Einheiten."),
        ("french", "Réponds toujours en français."),
        ("french", "N'utilise jamais d'emojis."),
        ("spanish", "Responde siempre en español."),
        ("italian", "Rispondi sempre in italiano."),
    ],
)
def test_an_instruction_for_every_time_stands(language: str, sentence: str) -> None:
    assert may_stand(words_of(sentence), language)
    assert is_standing_instruction(words_of(sentence), language)


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("english", "I always answer in German."),
        ("english", "Answer in German."),
        ("english", "Never give up!"),
        ("english", "Always here to help."),
        ("english", "The sign says: always look on the bright side."),
        ("german", "Ich gehe immer laufen."),
        ("russian", "Always answer in German."),
        ("none", "Always answer in German."),
    ],
)
def test_a_habit_and_a_single_wish_do_not_stand(language: str, sentence: str) -> None:
    assert not is_standing_instruction(words_of(sentence), language)


def test_the_words_of_standing_instructions_are_folded() -> None:
    for section, phrases in word_sections("standing").items():
        assert section.partition(" ")[0] in LANGUAGES
        assert [words_of(phrase.replace("_", " ")) for phrase in phrases] == [
            phrase.split("_") for phrase in phrases
        ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Hey Mel! Good to see you.", ["Mel"]),
        ("That's great, Ada! Thanks, Ada.", ["Ada", "Ada"]),
        ("Thank you Zoë, I will.", ["Zoë"]),
        ("We moved to Portland, Oregon.", []),
        ("I saw my friend, Bob, there.", []),
        ("In Boston, it rained.", []),
        ("thanks, dear.", []),
        ("", []),
    ],
)
def test_who_is_addressed_by_name(text: str, names: list[str]) -> None:
    assert list(addressed_names(text, "english")) == names


def test_a_standing_instruction_is_recalled_whatever_the_question() -> None:
    memory = _with_teas()
    memory.add(
        [{"role": "user", "content": "Always format dates as day and month."}], scope="user/ada", session="s"
    )
    package = _recalled(memory, "Where is the tea of week 7?")
    answer = memory.explain("Where is the tea of week 7?", scope="user/ada", tokens=400)
    standing = answer.explanation.items[0].as_json()

    assert package.items[0].excerpt == "Always format dates as day and month."
    assert not package.items[0].pinned
    assert standing["why"][0] == "standing"
    assert any("week 7 " in item.excerpt for item in package.items)
    memory.close()


def test_standing_instructions_take_at_most_a_tenth_of_the_budget() -> None:
    memory = _with_teas()
    rules = [f"Always use pattern {number} in the garden when I ask about plants." for number in range(30)]
    memory.add([{"role": "user", "content": rule} for rule in rules], scope="user/ada", session="s")
    package = _recalled(memory, "Where is the tea of week 7?", tokens=600)
    standing = [item for item in package.items if item.excerpt.startswith("Always")]

    assert 1 <= len(standing) <= 4
    assert sum(len(item.excerpt.encode()) for item in standing) <= 600 * 4 // 10
    assert not [item for item in _recalled(memory, "tea", tokens=60).items if item.excerpt[:6] == "Always"]
    memory.close()


def test_only_a_users_own_instruction_stands() -> None:
    memory = _with_teas()
    rule = "Always quote the price of plants."
    memory.add([{"role": "assistant", "content": rule}], scope="user/ada", session="s")
    memory.remember(rule, scope="user/ada", source={"kind": "web", "id": "example.com"}, subject="page")

    assert rule not in _recalled(memory, "Where is the tea of week 7?").text
    memory.close()


def _chat(memory: Memory, *, assistant_says: str, user_says: str) -> None:
    for number in range(3):
        messages = [
            {"role": "assistant", "content": f"{assistant_says} What did you plant in garden {number}?"},
            {"role": "user", "content": f"{user_says} Roses and some herbs in garden {number}."},
            {"role": "assistant", "content": f"I would plant roses and some herbs in garden {number}."},
        ]
        memory.add(messages, scope="user/ada", session=f"garden {number}")


def _boosted(memory: Memory, query: str) -> set[str]:
    """The sources of what is boosted because the question names the speaker."""
    answer = memory.explain(query, scope="user/ada", tokens=2_000)
    assert isinstance(answer.package, RecallPackage)
    by_id = {item.memory_id: item for item in answer.package.items}
    return {
        by_id[one.memory_id].source.partition(":")[0]
        for one in answer.explanation.items
        if "named" in one.as_json()["boosts"]
    }


def test_messages_without_names_get_them_from_how_the_other_side_addresses_them() -> None:
    memory = Memory.open(":memory:")
    _chat(memory, assistant_says="Hi Ada!", user_says="Thanks, Max.")

    assert _boosted(memory, "What did Ada plant?") == {"user"}
    assert _boosted(memory, "What would Max plant?") == {"agent"}
    assert _boosted(memory, "What did Eve plant?") == set()
    memory.close()


def test_a_name_that_both_sides_use_says_nothing() -> None:
    memory = Memory.open(":memory:")
    _chat(memory, assistant_says="Hi Ada!", user_says="Hi Ada!")

    assert _boosted(memory, "What did Ada plant?") == set()
    memory.close()


def test_a_name_counts_in_its_own_scope_only() -> None:
    memory = Memory.open(":memory:")
    _chat(memory, assistant_says="Hi Ada!", user_says="Sure.")
    messages = [{"role": "user", "content": "Roses grow in the garden of Bob."}]
    memory.add(messages, scope="user/ada/other", session="s")
    answer = memory.explain("What did Ada plant in the garden?", scope="user/ada", tokens=2_000)
    named = [one.memory_id for one in answer.explanation.items if "named" in one.as_json()["boosts"]]

    assert len(named) == 3
    memory.close()


def test_advice_is_asked_with_what_the_user_prefers_in_mind() -> None:
    memory = Memory.open(":memory:")
    messages = [
        {"role": "user", "content": "My essay on rivers needs a tool for writing."},
        {"role": "user", "content": "I prefer a simple tool for an essay, by the way."},
        {"role": "assistant", "content": "Others prefer a large tool for an essay, by the way."},
    ]
    memory.add(messages, scope="user/ada", session="s")
    explained = memory.explain("Which tool for the essay would you suggest?", scope="user/ada").explanation
    boosted = {one.rank for one in explained.items if "preference" in one.as_json()["boosts"]}
    plain = memory.explain("Which tool for the essay was it?", scope="user/ada").explanation

    assert boosted == {1}
    assert not any("preference" in one.as_json()["boosts"] for one in plain.items)
    memory.close()


@pytest.mark.parametrize("language", ["english", "german", "french", "spanish", "italian"])
def test_every_language_that_knows_advice_knows_preferences(language: str) -> None:
    sections = word_sections("askers")
    question = sections[f"{language} advice"][0]

    assert preference_words([question], language) == sections[f"{language} preference"]
    assert preference_words(["xyz"], language) == ()
    assert preference_words([question], "russian") == ()
