"""A prompt renders what its tag says, or says why not."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from standfast.clock import CountedIds
from standfast.errors import InvalidValue
from standfast.optimize.errors import PromptError, StaleOverride
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.prompts.overrides import SectionOverride, apply_overrides, full_overrides
from standfast.optimize.prompts.prompt import (
    Fallback,
    FellBack,
    Prompt,
    RenderedPrompt,
    descriptor_for_prompt,
)
from standfast.optimize.prompts.template import (
    InMemoryPromptRegistry,
    PromptTemplate,
    Section,
    content_hash,
    fill,
    memory_section,
    placeholders,
)
from tests.optimize.prompts.builders import TEMPLATE, TONE, Package, rules, tone
from tests.raising import raises_code

PARAMS = {"language": "German", "question": "Where is my parcel?"}


def _render(prompt: Prompt) -> RenderedPrompt:
    return prompt.bind(PARAMS, memory=Package()).render()


@pytest.fixture
def store(tmp_path: Path) -> LocalPromptOverridesStore:
    return LocalPromptOverridesStore(tmp_path, ids=CountedIds())


def test_the_source_renders_with_headings_values_and_memory() -> None:
    rendered = _render(Prompt(TEMPLATE))

    assert rendered.text == (
        "## Role\n\nYou help customers.\n\n"
        "### Rules\n\nAnswer in German. You must NEVER guess; say when you do not know.\n\n"
        "### Tone\n\nPlease be so kind as to be polite at all times.\n\n"
        "## Memory\n\nEU refunds take 14 days.\n\n"
        "## Task\n\nQuestion: Where is my parcel?\n"
    )
    assert rendered.prompt_digest == TEMPLATE.descriptor.digest
    assert rendered.package_hash == Package().package_hash
    assert (rendered.tag, rendered.fell_back) == (None, None)


def test_an_override_by_tag_is_rendered_and_its_digest_tells(store: LocalPromptOverridesStore) -> None:
    store.store(TEMPLATE, tone("Be polite."), tag="stable")
    rendered = _render(Prompt(TEMPLATE, overrides_tag="stable", overrides_store=store))

    assert "### Tone\n\nBe polite." in rendered.text
    assert rendered.prompt_digest != TEMPLATE.descriptor.digest
    assert (rendered.tag, rendered.version, rendered.fell_back) == ("stable", 1, None)


def test_a_missing_override_never_renders_silently(store: LocalPromptOverridesStore) -> None:
    strict = Prompt(TEMPLATE, overrides_tag="opt-7", overrides_store=store)
    lenient = Prompt(TEMPLATE, overrides_tag="opt-7", overrides_store=store, fallback=Fallback.TEMPLATE)

    with raises_code("missing_override"):
        _render(strict)
    with raises_code("missing_override"):
        _render(Prompt(TEMPLATE, overrides_tag="stable"))
    assert _render(lenient).fell_back is FellBack.MISSING
    assert _render(lenient).prompt_digest == TEMPLATE.descriptor.digest


def test_a_stale_override_never_renders_silently(store: LocalPromptOverridesStore) -> None:
    """The source was changed after the override was made."""
    store.store(TEMPLATE, tone("Be polite."), tag="stable")
    role, *others = TEMPLATE.sections
    changed = PromptTemplate(
        ns="agent",
        key="support",
        sections=(
            Section(
                key="role",
                title="Role",
                children=(Section(key="tone", title="Tone", body="Be rude."),),
            ),
            *others,
        ),
    )
    prompt = Prompt(changed, overrides_tag="stable", overrides_store=store)

    with pytest.raises(StaleOverride, match="tone"):
        _render(prompt)
    lenient = Prompt(changed, overrides_tag="stable", overrides_store=store, fallback=Fallback.TEMPLATE)
    assert _render(lenient).fell_back is FellBack.STALE
    assert "Be rude." in _render(lenient).text
    assert role


def test_the_store_may_be_handed_in_when_it_is_rendered(store: LocalPromptOverridesStore) -> None:
    store.store(TEMPLATE, tone("Be polite."), tag="stable")
    prompt = Prompt(TEMPLATE, overrides_tag="stable").bind(PARAMS, memory=Package())

    assert "Be polite." in prompt.render(store).text


@pytest.mark.parametrize(
    ("override", "error"),
    [
        (SectionOverride(path=("nowhere",), expected_hash="0" * 64, body="x"), StaleOverride),
        (SectionOverride(path=("role", "tone"), expected_hash="0" * 64, body="x"), StaleOverride),
        (rules("Answer."), StaleOverride),
        (rules("Answer in ${language}, ${name}."), StaleOverride),
        (tone("Be polite in ${language}."), StaleOverride),
        (
            SectionOverride(
                path=("role", "tone"), expected_hash=content_hash(TONE.body), body="x", recall_tokens=5
            ),
            StaleOverride,
        ),
    ],
    ids=["unknown section", "stale", "dropped", "invented", "moved", "recall without memory"],
)
def test_an_override_that_does_not_fit_is_not_even_stored(
    store: LocalPromptOverridesStore, override: SectionOverride, error: type[PromptError]
) -> None:
    with pytest.raises(error):
        store.store(TEMPLATE, override, tag="stable")
    assert store.list() == []


def test_full_overrides_leave_nothing_to_what_else_is_stored(store: LocalPromptOverridesStore) -> None:
    wanted = apply_overrides(TEMPLATE.descriptor, [tone("Be polite.")], tag="stable")
    full = full_overrides(TEMPLATE.descriptor, wanted)
    store.replace(TEMPLATE, full, tag="opt-1")

    assert {override.path for override in full} == {path for path, _ in TEMPLATE.walk()}
    assert Prompt(TEMPLATE, overrides_tag="opt-1", overrides_store=store).descriptor.digest == wanted.digest


def test_the_recall_budget_of_memory_can_be_overridden(store: LocalPromptOverridesStore) -> None:
    memory = memory_section(tokens=800)
    override = SectionOverride(
        path=("memory",), expected_hash=memory.content_hash, body=memory.body, recall_tokens=200
    )
    store.store(TEMPLATE, override, tag="stable")
    section = descriptor_for_prompt(Prompt(TEMPLATE, overrides_tag="stable", overrides_store=store)).section(
        ("memory",)
    )

    assert section is not None
    assert section.recall_tokens == 200


def test_a_section_that_says_nothing_leaves_no_heading(store: LocalPromptOverridesStore) -> None:
    store.store(TEMPLATE, tone(""), tag="stable")

    assert "Tone" not in _render(Prompt(TEMPLATE, overrides_tag="stable", overrides_store=store)).text


def test_a_value_is_never_read_as_a_placeholder() -> None:
    """What memory or a user says can't reach into the prompt."""
    hostile = Package(text="${question} $${ ${language}")
    rendered = Prompt(TEMPLATE).bind(PARAMS, memory=hostile).render()

    assert "${question} $${ ${language}" in rendered.text


def test_a_placeholder_without_a_value_is_an_error() -> None:
    with raises_code("missing_parameter", match="memory, question"):
        Prompt(TEMPLATE).bind({"language": "German"}).render()


def test_an_unknown_prompt_is_an_error() -> None:
    registry = InMemoryPromptRegistry(TEMPLATE)

    assert registry.get("agent", "support") is TEMPLATE
    with raises_code("unknown_prompt"):
        registry.get("agent", "sales")


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": ""},
        {"key": "a", "body": "${memory}"},
        {"key": "a", "body": "no place", "recall_tokens": 5},
        {"key": "a", "body": "${memory}", "recall_tokens": 0},
        {"key": "a", "children": (Section(key="x"), Section(key="x"))},
    ],
    ids=str,
)
def test_a_section_that_could_not_work_can_not_be_built(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        Section(**wrong)


def test_a_template_survives_a_trip_as_json() -> None:
    assert PromptTemplate.from_json(TEMPLATE.as_json()) == TEMPLATE


@example("$${a} ${a}", "x")
@example("$$${a}", "x")
@example("${a}", "${a}")
@settings(max_examples=60)
@given(st.text(alphabet="$ {}ab_1\n", max_size=40), st.text(max_size=10))
def test_filling_in_changes_placeholders_and_nothing_else(body: str, value: str) -> None:
    names = placeholders(body)
    text = fill(body, dict.fromkeys(names, "\0"))

    assert text.replace("\0", "") == _without_placeholders(body, names)
    assert fill(body, dict.fromkeys(names, value)) == text.replace("\0", value)


def _without_placeholders(body: str, names: tuple[str, ...]) -> str:
    """A second reading of the rule, one character at a time."""
    out, at = "", 0
    while at < len(body):
        if body.startswith("$${", at):
            out, at = out + "${", at + 3
            continue
        name = next((name for name in names if body.startswith("${" + name + "}", at)), None)
        out, at = (out, at + len(name) + 3) if name else (out + body[at], at + 1)
    return out


def test_a_placeholder_may_have_one_letter() -> None:
    assert placeholders("${a} $${b} ${c_1} ${1d}") == ("a", "c_1")
    assert fill("${a} $${b}", {"a": "1"}) == "1 ${b}"


def test_headings_have_at_most_six_marks() -> None:
    section = Section(key="s7", title="Seven", body="Deep.")
    for level in range(6, 0, -1):
        section = Section(key=f"s{level}", title=str(level), children=(section,))
    text = Prompt(PromptTemplate(ns="agent", key="deep", sections=(section,))).render().text

    assert text.splitlines()[0] == "## 1"
    assert "\n###### Seven\n" in text


def test_a_value_that_is_bound_again_wins_and_an_unused_package_is_not_named() -> None:
    template = PromptTemplate(ns="agent", key="x", sections=(Section(key="s", body="Say ${word}."),))
    rendered = Prompt(template).bind({"word": "one"}, memory=Package()).bind({"word": "two"}).render()

    assert (rendered.text, rendered.package_hash) == ("Say two.\n", None)
