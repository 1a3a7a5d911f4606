"""A prompt that the tests share, and overrides for it."""

from dataclasses import dataclass

from standfast.optimize.prompts.overrides import SectionOverride
from standfast.optimize.prompts.template import PromptTemplate, Section, content_hash, memory_section

RULES = Section(
    key="rules", title="Rules", body="Answer in ${language}. You must NEVER guess; say when you do not know."
)
TONE = Section(key="tone", title="Tone", body="Please be so kind as to be polite at all times.")
TEMPLATE = PromptTemplate(
    ns="agent",
    key="support",
    sections=(
        Section(key="role", title="Role", body="You help customers.", children=(RULES, TONE)),
        memory_section(tokens=800),
        Section(key="task", title="Task", body="Question: ${question}"),
    ),
)


@dataclass(frozen=True)
class Package:
    """A context package, as far as a prompt looks at it."""

    text: str = "EU refunds take 14 days."
    package_hash: str = "p" * 64


def tone(body: str, *, source: str = TONE.body) -> SectionOverride:
    """An override of the section on tone."""
    return SectionOverride(path=("role", "tone"), expected_hash=content_hash(source), body=body)


def rules(body: str) -> SectionOverride:
    """An override of the section on rules."""
    return SectionOverride(path=("role", "rules"), expected_hash=RULES.content_hash, body=body)
