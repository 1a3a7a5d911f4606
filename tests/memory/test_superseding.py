"""What is current: a record supersedes others, the past is asked for with a snapshot, and what does not hold
now is not recalled.
"""

from typing import Any

import pytest

from standfast.errors import InvalidValue, NotAuthorised
from standfast.govern.approvals.approvals import Decision
from standfast.govern.approvals.queue import WaitingProposal
from standfast.memory import Memory
from standfast.records.vocabulary import ActionType, Verdict
from tests.memory.conftest import HANDBOOK, SECRET, SIGNERS, decision

OLD, NEW = "Ada lives in Bergen.", "Since May, Ada has her home in Cork."
QUERY = "Where does Ada live?"


def recalled(memory: Memory, at: int | None = None, **options: Any) -> str:
    view = memory if at is None else memory.at(at)
    return view.recall(QUERY, tokens=500, scope="user/ada", **options).text


def test_a_record_supersedes_others_of_its_scope_and_the_past_still_shows_them(memory: Memory) -> None:
    first = memory.remember(OLD, scope="user/ada")
    second = memory.remember("Ada's home has a garden.", subject="home", scope="user/ada")
    other = memory.remember(OLD, scope="user/bob")
    before = memory.store.head()
    package = memory.at(before).recall(QUERY, scope="user/ada").package_hash
    made = memory.remember(NEW, scope="user/ada", supersedes=[first.memory_id, "home"])

    assert made.verdict is Verdict.SEAL
    assert "Cork" in recalled(memory)
    assert "Bergen" not in recalled(memory)
    assert "garden" not in recalled(memory)
    assert "Bergen" in recalled(memory, before)
    assert "Cork" not in recalled(memory, before)
    assert memory.at(before).recall(QUERY, scope="user/ada").package_hash == package
    assert "Bergen" in memory.recall(QUERY, scope="user/bob").text
    for ended in (first.memory_id, second.memory_id):
        actions = [one.action for one in memory.history(ended, scope="user/ada")]
        assert actions == [ActionType.WRITE] * 2 + [ActionType.EXPIRE] * 2
    (current,) = [one for one in memory.records(scope="user/ada") if one.band == "LEDGER"]
    assert current.supersedes == (first.memory_id, "home")
    assert other.memory_id != first.memory_id
    assert list(memory.verify()) == []
    assert memory.remember(OLD, scope="user/ada").known is None


def test_a_new_text_of_the_same_subject_supersedes_the_old_one(memory: Memory) -> None:
    memory.remember(OLD, subject="home", scope="user/ada")
    memory.remember(NEW, subject="home", scope="user/ada", supersedes="home")

    assert "Bergen" not in recalled(memory)
    assert "Cork" in recalled(memory)
    assert "Bergen" in recalled(memory, 1)


def test_only_what_is_accepted_supersedes(memory: Memory) -> None:
    first = memory.remember(OLD, scope="user/ada").memory_id
    rejected = memory.remember(SECRET, scope="user/ada", supersedes=first)
    held = memory.remember(NEW, scope="user/ada", supersedes=first, hold="not sure")

    assert (rejected.verdict, held.verdict) == (Verdict.VOID, Verdict.HOLD)
    assert "Bergen" in recalled(memory)


def test_what_a_person_accepts_supersedes_then(memory: Memory) -> None:
    first = memory.remember(OLD, scope="user/ada").memory_id
    memory.remember(NEW, scope="user/ada", supersedes=first, hold="not sure", source=HANDBOOK)
    (waiting,) = memory.approvals.waiting()
    assert isinstance(waiting, WaitingProposal)
    memory.approvals.decide(decision(memory, waiting, Decision.ACCEPT), signers=SIGNERS)

    assert "Cork" in recalled(memory)
    assert "Bergen" not in recalled(memory)
    assert list(memory.verify()) == []


def test_law_supersedes_memory_and_nothing_but_a_signature_ends_law(memory: Memory) -> None:
    first = memory.remember(OLD, scope="user/ada").memory_id
    memory.remember(NEW, subject="home", scope="user/ada", supersedes=first, source=HANDBOOK, propose=True)
    (waiting,) = memory.approvals.waiting()
    memory.approvals.decide(decision(memory, waiting), signers=SIGNERS)

    assert "Cork" in recalled(memory)
    assert "Bergen" not in recalled(memory)
    with pytest.raises(NotAuthorised):
        memory.remember("Ada's cat is black.", scope="user/ada", supersedes="home")


def test_what_is_known_supersedes_too(memory: Memory) -> None:
    first = memory.remember(OLD, scope="user/ada").memory_id
    second = memory.remember(NEW, scope="user/ada").memory_id
    again = memory.remember(NEW, scope="user/ada", supersedes=first)

    assert again.known == second
    assert "Bergen" not in recalled(memory)


def test_untrusted_content_supersedes_only_its_own_kind(memory: Memory) -> None:
    first = memory.remember(OLD, scope="user/ada").memory_id
    web = {"kind": "web", "id": "example.com"}
    claimed = memory.remember("Ada is at sea.", scope="user/ada", source=web)

    with pytest.raises(InvalidValue, match="untrusted"):
        memory.remember(NEW, scope="user/ada", source=web, supersedes=first)
    assert memory.remember(
        "Ada is on land.", scope="user/ada", source=web, supersedes=claimed.memory_id
    ).receipt
    assert "Bergen" in recalled(memory)


@pytest.mark.parametrize("wrong", ["nothing", 7, [7], ["a"] * 2 + [str(n) for n in range(99)]])
def test_a_wrong_id_is_refused_before_anything_is_written(memory: Memory, wrong: Any) -> None:
    memory.remember(OLD, scope="user/bob", subject="nothing")
    before = memory.store.head()

    with pytest.raises(InvalidValue):
        memory.remember(NEW, scope="user/ada", supersedes=wrong)
    assert memory.store.head() == before


def test_a_run_supersedes_when_it_commits(memory: Memory) -> None:
    first = memory.remember(OLD, scope="user/ada").memory_id
    with memory.run(workflow="w", mode="buffered_write", scope="user/ada") as run:
        made = run.remember(NEW, supersedes=first)
        with pytest.raises(InvalidValue, match="own buffer"):
            run.remember("Ada has moved to Oslo.", supersedes=made.memory_id)
        assert "Bergen" in recalled(memory)

    assert "Bergen" not in recalled(memory)


def test_messages_supersede_once(memory: Memory) -> None:
    first = memory.remember(OLD, scope="user/ada").memory_id
    chat = [{"role": "user", "content": "I live in Cork now."}, {"role": "assistant", "content": "Noted."}]
    for _ in range(2):
        memory.add(chat, scope="user/ada", session="s", supersedes=first, position=0)

    assert "Bergen" not in recalled(memory)
    assert "Cork" in recalled(memory)
    with pytest.raises(InvalidValue, match=r"there is no record \S+ in scope user/ada now"):
        memory.add([{"role": "user", "content": "Thanks!"}], scope="user/ada", session="s", supersedes=first)


def test_what_does_not_hold_is_not_recalled_and_two_that_disagree_stand_together(memory: Memory) -> None:
    memory.remember(OLD, scope="user/ada", valid_until="2026-05-01")
    memory.remember("Ada lives in Cork.", scope="user/ada", valid_from="2026-05-01")

    assert "Bergen" not in recalled(memory, now_utc="2026-06-01T00:00:00Z")
    assert "Cork" in recalled(memory, now_utc="2026-06-01T00:00:00Z")
    assert "Bergen" in recalled(memory, now_utc="2026-04-01T00:00:00Z")
    assert "Cork" not in recalled(memory, now_utc="2026-04-01T00:00:00Z")


def test_what_is_not_there_can_t_be_superseded(memory: Memory) -> None:
    with pytest.raises(InvalidValue, match="there is no record 'm-1' now"):
        memory.remember(NEW, supersedes="m-1")
