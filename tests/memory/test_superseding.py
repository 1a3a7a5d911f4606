"""What is current: a record supersedes others, the past is asked for with a snapshot, and what does not hold
now is not recalled.
"""

from typing import Any

import pytest

from standfast.errors import CommitAborted, InvalidValue, NotAuthorised
from standfast.govern.approvals.approvals import Decision
from standfast.govern.approvals.queue import WaitingProposal
from standfast.memory import Memory
from standfast.recall import RecallItem
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


def test_what_is_known_ends_nothing_if_it_has_ended_itself_meanwhile(memory: Memory) -> None:
    first = memory.remember(OLD, scope="user/ada").memory_id
    known = memory.remember(NEW, scope="user/ada").memory_id
    run = memory.run(workflow="w", mode="buffered_write", scope="user/ada")
    assert run.remember(NEW, supersedes=first).known == known
    memory.remember("Ada has moved to Oslo.", scope="user/ada", supersedes=known)

    with pytest.raises(CommitAborted):
        run.commit()
    assert "Bergen" in recalled(memory)


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


USER = {"kind": "user", "id": "ada"}
DOCUMENT = {"kind": "doc", "id": "letter"}


@pytest.mark.parametrize("source", [None, DOCUMENT])
def test_an_ordinary_text_of_a_subject_stands_next_to_what_the_user_said_about_it(
    memory: Memory, source: dict[str, Any] | None
) -> None:
    memory.remember(OLD, subject="home", scope="user/ada", source=USER)
    made = memory.remember(NEW, subject="home", scope="user/ada", source=source)
    again = memory.remember("Ada's home is in Derry.", subject="home", scope="user/ada", source=source)
    shown = recalled(memory)

    assert made.accepted
    assert made.reasons == ("kept next to 'home', which a trusted user said: only the user can replace it",)
    assert again.memory_id == made.memory_id, "one source has one text next to the user's"
    assert "DISAGREE on home" in shown
    assert ", trusted]\n" in shown
    assert [text in shown for text in ("Bergen", "Cork", "Derry")] == [True, False, True]
    assert [one.about for one in memory.conflicts(scope="user/ada")] == ["home"]
    assert list(memory.verify()) == []


def test_what_the_user_says_next_replaces_both(memory: Memory) -> None:
    memory.remember(OLD, subject="home", scope="user/ada", source=USER)
    beside = memory.remember(NEW, subject="home", scope="user/ada")
    said = memory.remember(NEW, subject="home", scope="user/ada", source=USER)
    (current,) = [one for one in memory.records(scope="user/ada") if one.band == "LEDGER"]

    assert (said.memory_id, current.supersedes) == ("home", (beside.memory_id,))
    assert "DISAGREE" not in recalled(memory)
    assert "Cork" in recalled(memory)
    assert "Bergen" not in recalled(memory)
    assert list(memory.verify()) == []


def test_a_draft_of_a_subject_is_not_ended_by_what_the_user_says(memory: Memory) -> None:
    held = memory.remember(NEW, subject="home", scope="user/ada", hold="not sure")
    memory.remember(OLD, subject="home", scope="user/ada", source=USER)

    assert [one.proposal.proposal_id for one in memory.approvals.waiting()] == [held.proposal_id]
    assert len([one for one in memory.records(scope="user/ada") if one.band == "LEDGER"]) == 2


def test_what_the_user_said_can_be_repeated_and_replaced_by_the_user_and_forgotten(memory: Memory) -> None:
    memory.remember(OLD, subject="home", scope="user/ada", source=USER)
    assert memory.remember(OLD, subject="home", scope="user/ada").known == "home"
    assert memory.remember(NEW, subject="home", scope="user/ada", source=USER).memory_id == "home"
    with memory.run(workflow="w", mode="buffered_write", scope="user/ada") as run:
        run.forget("home", reason="wrong")
        assert run.remember("Ada's home is in Derry.", subject="home").memory_id == "home"

    assert "Derry" in recalled(memory)


def test_within_a_run_an_ordinary_text_stands_next_to_the_users_too(memory: Memory) -> None:
    with memory.run(workflow="w", mode="buffered_write", scope="user/ada") as run:
        run.remember(OLD, subject="home", source=USER)
        run.remember(NEW, subject="home")

    assert "Bergen" in recalled(memory)
    assert "DISAGREE on home" in recalled(memory)


def test_an_ordinary_text_does_not_end_what_the_user_said_and_says_so(memory: Memory) -> None:
    first = memory.remember(OLD, scope="user/ada", source=USER).memory_id
    other = memory.remember("Ada's home has a garden.", scope="user/ada").memory_id
    made = memory.remember(NEW, scope="user/ada", supersedes=[first, other])
    stored = {one.memory_id: one for one in memory.records(scope="user/ada")}
    package = memory.recall(QUERY, scope="user/ada", tokens=500)

    assert made.accepted
    assert [first in reason for reason in made.reasons] == [True]
    assert set(stored) == {first, made.memory_id}
    assert stored[made.memory_id].supersedes == (other,)
    assert "Ada lives in Bergen." in package.text
    assert f"{NEW} (a trusted user said otherwise)" in package.text
    (item,) = [one for one in package.items if one.memory_id == made.memory_id]
    assert isinstance(item, RecallItem)
    assert item.disputes == (first,)
    assert list(memory.verify()) == []


def test_an_assistants_message_ends_nothing_that_the_user_said(memory: Memory) -> None:
    first = memory.remember(OLD, scope="user/ada", source=USER).memory_id
    memory.add(
        [{"role": "assistant", "content": NEW}], scope="user/ada", session="s", supersedes=first, position=0
    )

    assert "Bergen" in recalled(memory)
    assert "(a trusted user said otherwise)" in recalled(memory)


def test_a_person_who_accepts_an_ordinary_text_on_hold_ends_what_the_user_said(memory: Memory) -> None:
    first = memory.remember(OLD, scope="user/ada", source=USER).memory_id
    memory.remember(NEW, scope="user/ada", supersedes=first, hold="ask Ada", source=DOCUMENT)
    (waiting,) = memory.approvals.waiting()
    memory.approvals.decide(decision(memory, waiting, Decision.ACCEPT), signers=SIGNERS)

    assert "Bergen" not in recalled(memory)
    assert "Cork" in recalled(memory)


def test_a_subject_can_hold_several_values_which_end_one_by_one(memory: Memory) -> None:
    memory.remember("Ada sails.", subject="hobby", scope="user/ada", several=True)
    chess = memory.remember("Ada plays chess.", subject="hobby", scope="user/ada", several=True)
    memory.remember(
        "Ada paints.", subject="hobby", scope="user/ada", several=True, supersedes=chess.memory_id
    )
    found = {record.text for record in memory.records(scope="user/ada")}

    assert found == {"Ada sails.", "Ada paints."}
    assert len(memory.history("hobby", scope="user/ada")) > 3
    memory.forget("hobby", reason="asked for", scope="user/ada")
    assert list(memory.records(scope="user/ada")) == []
    with pytest.raises(InvalidValue, match="needs a subject"):
        memory.remember("Ada sails.", several=True)
