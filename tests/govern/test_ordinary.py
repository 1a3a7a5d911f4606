"""Ordinary texts are accepted, with and without a source, and none of them waits for a human."""

import pytest
from msgspec.structs import replace

from standfast.govern.judge.judge import Claim, FloorRegistry, Judge
from standfast.records.vocabulary import Verdict
from tests.govern.corpus import PARTS, SOURCE, cases

JUDGE = Judge(FloorRegistry.shipped())
ORDINARY = tuple(case for part in PARTS for case in cases(part) if case.label == "clean")
CHAT = (
    "Please answer in German.",
    "I always take the train to work, never the car.",
    "My sister's phone number is 0660 1234567, and her mail is eva.maier@example.org.",
    "Thanks!",
    "ok",
    "Can you book a table for two at seven?",
    "Everyone here loves the new coffee machine.",
    "I forgot my password again, so IT will reset it tomorrow.",
    "Ignore the second invoice, it was paid in May.",
    "The meeting was moved from Tuesday to Thursday at 10:30.",
)


@pytest.mark.parametrize(
    "source", [None, SOURCE, {"kind": "agent", "id": "bot"}, {"kind": "web", "id": "unknown"}]
)
def test_at_most_two_in_a_thousand_are_not_accepted_and_none_is_a_proposal(
    source: dict[str, str] | None,
) -> None:
    judged = [
        JUDGE.judge(
            Claim(record=replace(case.claim.record, source=source), role=case.claim.role), case.context
        )
        for case in ORDINARY
    ]
    refused = [one.reasons for one in judged if one.verdict is not Verdict.SEAL]

    assert len(ORDINARY) > 400
    assert not [one for one in judged if one.verdict is Verdict.PARTIAL]
    # The held-out parts have one line that is wrongly refused; 2 in 1,000 of so few is less than one.
    assert len(refused) <= 1, refused


DOCUMENTATION = (
    # Programs and their documentation: turns of a chat, commands, calls, variables, links, rulers.
    (
        'messages = [{"role": "user", "content": "I run."}, {"role": "assistant", "content": "Let us build a'
        ' plan."}]'
    ),
    "#### Instructions\nMake a copy of the template and take your notes there.",
    "credentials = boto3.Session().get_credentials()",
    "export API_KEY=MEM0_API_KEY",
    (
        "Search memories:\ncurl -X POST https://api.mem0.ai/v2/memories/search/ -H 'Content-Type:"
        " application/json'"
    ),
    "To allow the bot to send messages to a channel, it must first be added to the channel.",
    "You only need to provide API keys.",
    "| `--all` | Delete all memories |\n| `--force` | Skip confirmation prompt |",
    (
        "Regular meeting: [Mondays](https://zoom.us/j/97964505804?pwd=R3hzSnArQWJHYmdWUnpSUDh3aXhFUT09)"
        " (biweekly)."
    ),
    (
        "-------------------------------------------------\nname: Paco Xu\nID:"
        " pacoxu\n-------------------------------------------------"
    ),
    (
        f"[![diagram](https://diagrams.example/img/{'eyJjb2RlIjoiXG5ncmFwaCBURFxuIHNlcnZlcjFb' * 40})] shows"
        " the servers."
    ),
    '<!-- example:{"name":"Operations"} -->\n```yaml\naction: send\ntags:\n  - user\n  - agent\n```',
    "This document is the authoritative guide for any developer who works on this SDK.",
    "If you set filters, you must provide their reason.",
    "postgres://postgres:postgres@localhost:5432/postgres is the database of the tests.",
    # Calls of tools in what an interface answers, and prompts that are spoken of.
    '{"content": null, "tool_calls": [{"id": "call_1", "function": {"name": "weather", "arguments": "{}"}}]}',
    "Low scores tell you that your system prompt needs work.",
    "The field `revised_prompt` holds the text that was used.",
    "It goes into the prompt, the system instructions, or both.",
    "To install the client, follow the instructions below.",
    "Enable memory to include conversation history in the request.",
    # What people and programs do with settings, messages and files.
    "Override your global settings for a single post.",
    "Drag and drop your columns onto the input.",
    "If you need to forward more headers, list them here.",
    "Overlapping runs silently send their requests twice.",
    "# Install what is missing.\nRUN apt-get update && apt-get install -y git && rm -rf /var/lib/apt/lists/*",
    "<!-- The picture shows which user needs which tool. -->",
    "![steps](https://assets.example/$web/steps.png)",
)


@pytest.mark.parametrize("text", DOCUMENTATION)
def test_what_documentation_is_made_of_is_accepted(text: str) -> None:
    record = replace(ORDINARY[0].claim.record, text=text, source=SOURCE)

    assert JUDGE.judge(Claim(record=record)).reasons == ()


def test_weak_signs_count_together_only_if_they_are_near_each_other() -> None:
    weak = ("The agent can act for the owner. ", "We force push to it. ")
    filler = "".join(
        f"In week {number} hall {number * 7} got {number * 3} new lamps. " for number in range(60)
    )

    def verdict(text: str) -> Verdict:
        return JUDGE.judge(Claim(record=replace(ORDINARY[0].claim.record, text=text))).verdict

    assert verdict("".join(weak)) is Verdict.VOID
    assert verdict(filler.join(weak)) is Verdict.SEAL
    assert verdict(f"{filler}{''.join(weak)}{filler}") is Verdict.VOID


@pytest.mark.parametrize("text", CHAT)
def test_what_people_say_in_a_chat_is_accepted(text: str) -> None:
    record = replace(ORDINARY[0].claim.record, text=text, source=None)

    assert JUDGE.judge(Claim(record=record)).verdict is Verdict.SEAL


def test_an_agent_s_name_is_not_read_as_words_and_a_key_in_its_place_is() -> None:
    case = next(one for one in ORDINARY if "<!--" in one.claim.record.text)
    named = replace(case.claim.record, source={"kind": "agent", "id": "bot"})
    key = replace(named, source={"kind": "agent", "id": "AKIA" + "Q3EGR7ZP2MX5TN4B"})

    assert JUDGE.judge(Claim(record=named), case.context).verdict is Verdict.SEAL
    assert JUDGE.judge(Claim(record=key), case.context).verdict is Verdict.VOID
