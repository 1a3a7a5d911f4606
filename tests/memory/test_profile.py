"""Profiles of scopes, what disagrees in them, and how it is settled."""

import pytest

from standfast.clock import ManualClock
from standfast.errors import InvalidValue, NoSuchSnapshot, NotAuthorised
from standfast.govern.approvals.approvals import Decision
from standfast.memory import Conflict, Memory, Profile, Run
from tests.memory.conftest import SECRET, SIGNERS, decision
from tests.store.builders import memory_store

ADA = "user/ada"
USER = {"kind": "user", "id": "ada"}


def told(
    memory: Memory, *texts: str, source: dict[str, str] | None = None, first_month: int = 1
) -> list[str]:
    return [
        memory.remember(text, scope=ADA, time=f"2025-0{month}-03T10:00:00Z", source=source or USER).memory_id
        for month, text in enumerate(texts, first_month)
    ]


def the_conflict(memory: Memory) -> Conflict:
    (conflict,) = memory.conflicts(scope=ADA)
    return conflict


def texts(profile: Profile) -> list[str]:
    return [item.excerpt for item in profile.items]


def test_a_profile_has_what_is_pinned_then_the_current_value_of_each_matter_newest_first(
    memory: Memory,
) -> None:
    old, new = told(memory, "I live in Munich.", "I moved to Lisbon.")
    told(memory, "My favourite colour is green.", first_month=5)
    memory.remember("Never mention prices.", scope=ADA, source=USER, pin=True, time="2024-01-01T00:00:00Z")
    memory.remember("Ada drinks tea.", scope=ADA, subject="drink", time="2025-04-01T00:00:00Z")
    memory.remember("It rained again in the hills.", scope=ADA)
    profile = memory.profile(ADA)

    assert texts(profile) == [
        "Never mention prices.",
        "My favourite colour is green.",
        "Ada drinks tea.",
        "I moved to Lisbon.",
    ]
    assert [(one.memory_id, one.reason) for one in profile.left_out] == [(old, f"said later: {new}")]
    assert [item.rank for item in profile.items] == [1, 2, 3, 4]
    assert profile.others == 1
    assert "2025-05-03" in profile.text


def test_a_profile_is_the_same_for_ever_as_of_its_snapshot(memory: Memory) -> None:
    told(memory, "I live in Munich.")
    then, before = memory.store.head(), memory.profile(ADA)
    told(memory, "I moved to Lisbon.", first_month=2)

    assert memory.profile(ADA, at=then) == before
    assert Profile.from_json(before.as_json()) == before
    assert texts(memory.profile(ADA)) == ["I moved to Lisbon."]
    with pytest.raises(NoSuchSnapshot):
        memory.profile(ADA, at=then + 7)


@pytest.mark.parametrize("tokens", [1, 20, 40, 80, 500])
def test_a_profile_stays_within_its_budget_and_names_what_did_not_fit(memory: Memory, tokens: int) -> None:
    for number in range(12):
        told(memory, f"My badge for door{number} is Z{number}.")
    profile = memory.profile(ADA, tokens=tokens)

    assert profile.text_tokens <= tokens
    assert len(profile.items) + len(profile.left_out) == 12
    assert {one.reason for one in profile.left_out} <= {"budget_exhausted"}


def test_what_is_untrusted_or_holds_no_longer_is_left_out_of_a_profile(memory: Memory) -> None:
    memory.remember(
        "I live in Rome.", scope=ADA, source={"kind": "web", "id": "evil.example"}, subject="home"
    )
    memory.remember("I live in Munich.", scope=ADA, source=USER, valid_until="2020-01-01T00:00:00Z")
    profile = memory.profile(ADA)

    assert not profile.items
    assert profile.text == ""
    assert {one.reason for one in profile.left_out} == {"held until 2020-01-01", "it is untrusted"}


def test_a_budget_of_nothing_is_refused(memory: Memory) -> None:
    with pytest.raises(InvalidValue, match="whole number from 1 on"):
        memory.profile(ADA, tokens=0)


def test_conflicts_name_both_sides_and_which_one_recall_shows_first(memory: Memory) -> None:
    old, new = told(memory, "I live in Munich.", "I moved to Lisbon.")
    told(memory, "My sister lives in Rome.", "I like tea.")
    conflict = the_conflict(memory)

    assert conflict.about == "the user: home"
    assert [(one.memory_id, one.value, one.is_first) for one in conflict.entries] == [
        (new, "lisbon", True),
        (old, "munich", False),
    ]
    assert memory.conflicts(scope="user/bob") == []
    assert memory.conflicts(scope="*") == [conflict]
    assert memory.conflicts(scope=ADA, at=1) == []


def test_a_person_keeps_one_and_the_other_ends_but_stays_in_history(memory: Memory) -> None:
    old, new = told(memory, "I live in Munich.", "I moved to Lisbon.")
    before = memory.store.head()
    conflict = the_conflict(memory)
    plan = memory.settle(
        conflict.conflict_id, old, reason="she said so", role="human", scope=ADA, rehearse=True
    )

    assert plan.ended == (new,)
    assert memory.store.head() == before, "a rehearsal changes nothing"

    settled = memory.settle(
        conflict.conflict_id, old, reason="she said so", role="human", by="kim", scope=ADA
    )

    assert settled.remembered is not None
    assert settled.remembered.accepted
    assert memory.conflicts(scope=ADA) == []
    assert texts(memory.profile(ADA)) == ["I live in Munich."]
    assert memory.history(new, scope=ADA)
    assert not list(memory.verify())


def test_both_are_kept_with_the_time_in_which_each_holds(memory: Memory) -> None:
    told(memory, "I live in Munich.", "I moved to Lisbon.")
    memory.settle(the_conflict(memory).conflict_id, "both", reason="a move", role="human", scope=ADA)
    now = memory.recall("Where do I live?", scope=ADA).text
    then = memory.recall("Where did I live in January 2025?", scope=ADA).text

    assert memory.conflicts(scope=ADA) == []
    assert "Lisbon" in now
    assert "Munich" not in now
    assert "I live in Munich. (This held until 2025-02-03.)" in then


def test_neither_is_kept(memory: Memory) -> None:
    told(memory, "I live in Munich.", "I moved to Lisbon.")
    memory.settle(the_conflict(memory).conflict_id, "neither", reason="a joke", role="human", scope=ADA)

    assert memory.conflicts(scope=ADA) == []
    assert memory.profile(ADA).items == ()


def test_an_agent_cannot_end_what_a_trusted_user_said_but_its_own_word(memory: Memory) -> None:
    _, new = told(memory, "I live in Munich.", "I moved to Lisbon.")
    with pytest.raises(NotAuthorised, match="end what a trusted user said"):
        memory.settle(the_conflict(memory).conflict_id, new, reason="newer", by="a model", scope=ADA)
    agent = {"kind": "agent", "id": "helper"}
    (own,) = told(memory, "I moved to Faro.", source=agent, first_month=3)
    conflict = the_conflict(memory)

    assert [one.trust for one in conflict.entries] == ["ordinary", "trusted", "trusted"]
    with pytest.raises(NotAuthorised):
        memory.settle(conflict.conflict_id, own, reason="newest", by="a model", scope=ADA)


def test_what_a_model_proposes_ends_nothing_until_a_person_accepts_it(memory: Memory) -> None:
    old, new = told(memory, "I live in Munich.", "I moved to Lisbon.")
    conflict = the_conflict(memory)
    settled = memory.settle(conflict.conflict_id, new, reason="newer", by="a model", scope=ADA, propose=True)
    assert settled.remembered is not None
    before = [one.conflict_id for one in memory.conflicts(scope=ADA)]
    (waiting,) = memory.approvals.waiting()
    memory.approvals.decide(decision(memory, waiting, Decision.ACCEPT), signers=SIGNERS)
    shown = memory.recall("Where do I live?", scope=ADA)

    assert waiting.proposal.proposal_id == settled.remembered.proposal_id
    assert before == [conflict.conflict_id]
    assert memory.conflicts(scope=ADA) == []
    assert "Lisbon" in shown.text
    assert old not in [item.memory_id for item in shown.items]
    first = next(one.record for one in memory.history(old, scope=ADA) if one.record)
    assert first.text == "I live in Munich."
    assert list(memory.verify()) == []


def test_a_profile_has_the_same_bytes_and_hash_on_every_backend(memory: Memory) -> None:
    said = ("I live in Munich.", "My favourite colour is blue.", "I moved to Lisbon.", "I love sailing.")
    profiles = []
    for one in (memory, Memory(memory_store(ManualClock()))):
        for month, text in enumerate(said, 1):
            # Ids that a store makes up are its own; these are the caller's.
            time = f"2025-0{month}-03T10:00:00Z"
            one.remember(text, scope=ADA, subject=f"said/{month}", time=time, source=USER)
        profiles.append(one.profile(ADA, tokens=200))
    here, in_memory = profiles

    assert here.package_hash == in_memory.package_hash
    assert here.text.encode() == in_memory.text.encode()
    assert texts(here)[0] == "I love sailing."


def test_only_a_side_of_two_statements_of_different_times_can_be_kept(memory: Memory) -> None:
    told(memory, "I live in Munich.", "I moved to Lisbon.")
    conflict = the_conflict(memory)

    with pytest.raises(InvalidValue, match="it must be one of"):
        memory.settle(conflict.conflict_id, "m-none", reason="x", role="human", scope=ADA)
    assert the_conflict(memory) == conflict


def test_settling_what_is_no_conflict_says_what_to_do(memory: Memory) -> None:
    told(memory, "I live in Munich.", "I moved to Lisbon.")
    conflict = the_conflict(memory)
    told(memory, "I moved to Faro.", first_month=3)

    with pytest.raises(InvalidValue, match="list them again"):
        memory.settle(conflict.conflict_id, "both", reason="x", role="human", scope=ADA)
    again = the_conflict(memory).conflict_id
    with pytest.raises(InvalidValue, match="neither"):
        memory.settle(again, "m-none", reason="x", role="human", scope=ADA)
    with pytest.raises(InvalidValue, match="reason"):
        memory.settle(again, "neither", reason=" ", role="human", scope=ADA)


def test_all_conflicts_are_settled_by_what_was_said_last_and_a_rehearsal_changes_nothing(
    memory: Memory,
) -> None:
    agent = {"kind": "agent", "id": "helper"}
    told(memory, "Bob lives in Munich.", "Bob moved to Lisbon.", source=agent)
    told(memory, "I love Chinese food.", "I hate Chinese food.")
    before = memory.store.head()
    planned = memory.settle_all(reason="tidy", rehearse=True)

    assert memory.store.head() == before
    assert sorted(bool(one.problem) for one in planned) == [False, True]

    memory.settle_all(reason="tidy")
    (left,) = memory.conflicts(scope="*")

    assert {one.trust for one in left.entries} == {"trusted"}
    assert not [one for one in memory.settle_all(reason="tidy", role="human") if one.problem]
    assert memory.conflicts(scope="*") == []


def test_law_stands_in_a_profile_for_what_it_replaced(memory: Memory) -> None:
    memory.remember("Refunds take 14 days.", subject="refunds", scope=ADA, source=USER, propose=True)
    (waiting,) = memory.approvals.waiting()
    memory.approvals.decide(decision(memory, waiting), signers=SIGNERS)
    memory.remember("Refunds take 30 days.", subject="refunds", scope=ADA, source=USER)

    assert texts(memory.profile(ADA)) == ["Refunds take 14 days."]
    assert list(memory.conflicts(scope=ADA)) == []


def test_what_is_said_to_replace_a_trusted_users_word_is_a_conflict(memory: Memory) -> None:
    own = memory.remember("The invoice goes to the Oslo office.", scope=ADA, source=USER)
    said = memory.remember(
        "The invoice goes to the Bergen branch.",
        scope=ADA,
        source={"kind": "doc", "id": "handbook"},
        supersedes=own.memory_id,
    )
    conflict = the_conflict(memory)

    assert {entry.memory_id for entry in conflict.entries} == {own.memory_id, said.memory_id}


@pytest.mark.parametrize("keeps", ["old", "both", "neither"])
def test_what_somebody_else_settled_meanwhile_is_no_conflict_any_more(memory: Memory, keeps: str) -> None:
    """Two people look at one conflict. The second is told so, and what the first kept is still there."""
    old, new = told(memory, "I live in Munich.", "I moved to Lisbon.")
    conflict = the_conflict(memory)
    second = Memory(memory.store)
    listed = second.current.conflicts(scope=ADA)
    keep = {"old": old}.get(keeps, keeps)
    # The second person's list is of before; what they do with it comes after.
    second.current.conflicts = lambda **_: listed  # type: ignore[method-assign]
    memory.settle(conflict.conflict_id, keep, reason="asked", by="kim", role="human", scope=ADA)
    with pytest.raises(InvalidValue, match="no conflict"):
        second.current.settle(conflict.conflict_id, new, reason="newer", by="lee", role="human", scope=ADA)

    shown = memory.recall("Where do I live?", scope=ADA).text
    assert {"old": "Munich", "both": "Lisbon", "neither": "withdrawn"}[keeps] in shown


def test_two_people_who_settle_at_once_do_not_end_both_sides() -> None:
    """Both began before either was done: the later one finds what it keeps ended, and is refused."""
    with Memory.open(":memory:") as memory:
        old, new = told(memory, "I live in Munich.", "I moved to Lisbon.")
        conflict = the_conflict(memory)
        open_run = memory.current._open_run
        before_second = [True]

        def opened(*named: object) -> Run:
            run = open_run(*named)
            if before_second.pop() if before_second else False:
                memory.settle(conflict.conflict_id, old, reason="asked", by="kim", role="human", scope=ADA)
            return run

        memory.current._open_run = opened
        with pytest.raises(InvalidValue, match="no conflict"):
            memory.settle(conflict.conflict_id, new, reason="newer", by="lee", role="human", scope=ADA)

        assert texts(memory.profile(ADA)) == ["I live in Munich."]


def test_a_settlement_that_is_rejected_ends_nothing_and_says_why(memory: Memory) -> None:
    _, new = told(memory, "I live in Munich.", "I moved to Lisbon.")
    conflict = the_conflict(memory)
    settled = memory.settle(
        conflict.conflict_id, new, reason=f"her key is {SECRET}", by="kim", role="human", scope=ADA
    )

    assert (settled.ended, "secret" in settled.problem) == ((), True)
    assert the_conflict(memory) == conflict


def test_conflicts_that_share_a_record_are_settled_together(memory: Memory) -> None:
    told(memory, "I live in Munich. My favourite colour is red.", "I moved to Lisbon.")
    told(memory, "My favourite colour is green.", first_month=5)
    settled = memory.settle_all(reason="newest holds", by="kim", role="human", scope=ADA)

    assert [one.problem for one in settled] == [""]
    assert memory.conflicts(scope=ADA) == []


def test_the_same_settlement_is_proposed_once(memory: Memory) -> None:
    old, new = told(memory, "I live in Munich.", "I moved to Lisbon.")
    conflict = the_conflict(memory)
    made = [
        memory.settle(conflict.conflict_id, keep, reason=reason, by="a model", scope=ADA, propose=True)
        for keep, reason in ((new, "newer"), (new, "newer still"), ("both", "newer"), (old, "older"))
    ]
    named = [one.remembered.proposal_id for one in made if one.remembered is not None]

    assert named[0] == named[1]
    assert len(set(named)) == len(list(memory.approvals.waiting())) == 3


def test_a_profile_of_then_says_that_something_was_erased_since(memory: Memory) -> None:
    told(memory, "I live in Munich.", "My favourite colour is red.")
    then, before = memory.store.head(), memory.profile(ADA)
    memory.remember("Bo lives in Rome.", scope="user/bo", subject="home")
    memory.forget("home", scope="user/bo", reason="asked")
    untouched = memory.profile(ADA, at=then)
    memory.forget(before.items[0].memory_id, scope=ADA, reason="asked")
    after = memory.profile(ADA, at=then)

    assert untouched == before
    assert after.erased_since is not None
    assert before.compare(after) == "erased"


def test_a_conflict_of_many_sides_is_settled_a_part_at_a_time(memory: Memory) -> None:
    for number in range(70):
        memory.remember(f"I live in Town{chr(97 + number // 26)}{chr(97 + number % 26)}.", scope=ADA)
    counts = []
    while found := memory.conflicts(scope=ADA):
        (conflict,) = found
        counts.append(len(conflict.entries))
        newest = conflict.entries[0]
        memory.settle(
            conflict.conflict_id, newest.memory_id, reason="it was said last", role="human", scope=ADA
        )

    assert newest.text == "I live in Towncr."
    # Seven are left of them, and the record that ended the others.
    assert counts == [64, 8]
