"""What an act of quarantine hides and what it leaves: facts of two sources, and chains of supersession."""

import pytest

from standfast.memory import Memory
from standfast.records.vocabulary import Band
from tests.memory.conftest import SIGNERS, decision
from tests.memory.test_incidents import CRM, HANDBOOK

ADA = {"kind": "user", "id": "ada"}
BEN = {"kind": "user", "id": "ben"}
WEB = {"kind": "web", "id": "https://example.com/a"}
TOOL = {"kind": "tool", "id": "crm"}
CORK = "The office is in Cork."


def _texts(memory: Memory, scope: str = "*") -> list[str]:
    return sorted(record.text for record in memory.records(scope=scope, band=Band.LEDGER))


def test_a_fact_of_two_sources_stays_while_one_of_them_is_not_in_quarantine(memory: Memory) -> None:
    memory.remember(CORK, subject="office", source=CRM)
    assert memory.remember(CORK, subject="office", source=HANDBOOK).known == "office"
    memory.remember("Post goes to Cork.", subject="post", refs=[{"kind": "memory", "id": "office"}])

    first = memory.quarantine(source=CRM, reason="incident 4")
    assert (first.records, [(one.memory_id, one.source) for one in first.kept]) == (
        0,
        [("office", "doc:handbook#4")],
    )
    assert _texts(memory) == ["Post goes to Cork.", CORK]

    second = memory.quarantine(source=HANDBOOK, reason="incident 5")
    assert (second.records, second.kept) == (2, ())
    assert _texts(memory) == []

    memory.release(second.act_id, reason="it was right")
    assert _texts(memory) == ["Post goes to Cork.", CORK]
    assert list(memory.verify()) == []


def test_the_other_order_hides_it_too(memory: Memory) -> None:
    memory.remember(CORK, source=CRM)
    memory.remember(CORK, source=HANDBOOK)

    witness = memory.quarantine(source=HANDBOOK, reason="incident 5")
    assert (witness.records, _texts(memory)) == (0, [CORK])
    memory.quarantine(source=CRM, reason="incident 4")

    assert _texts(memory) == []


def test_a_record_that_is_named_itself_goes_though_others_said_it(memory: Memory) -> None:
    memory.remember(CORK, subject="office", source=CRM)
    memory.remember(CORK, subject="office", source=HANDBOOK)

    done = memory.quarantine("office", reason="it is wrong")

    assert (done.records, done.kept, _texts(memory)) == (1, (), [])


@pytest.mark.parametrize("second", [None, {"kind": "agent", "id": "bot"}, TOOL])
def test_hearsay_and_what_is_trusted_less_carry_nothing(
    memory: Memory, second: dict[str, str] | None
) -> None:
    memory.remember(CORK, source=CRM)
    memory.remember(CORK, source=second)

    memory.quarantine(source=CRM, reason="incident 4")

    assert CORK not in [one.text for one in memory.records() if one.origin != "untrusted"]


def test_what_an_ordinary_source_repeats_does_not_carry_what_a_user_said(memory: Memory) -> None:
    memory.remember(CORK, source=ADA)
    memory.remember(CORK, source=HANDBOOK)

    memory.quarantine(source=ADA, reason="the account was stolen")

    assert _texts(memory) == []


def test_a_witness_of_an_earlier_text_carries_no_later_one(memory: Memory) -> None:
    memory.remember(CORK, subject="office", source=CRM)
    memory.remember(CORK, subject="office", source=HANDBOOK)
    memory.remember("The office is in Oslo.", subject="office", source=CRM)

    done = memory.quarantine(source=CRM, reason="incident 4")

    assert (done.records, done.restored) == (1, 1)
    assert _texts(memory) == [CORK]


def test_a_run_that_said_a_fact_second_vouches_no_more(memory: Memory) -> None:
    memory.remember(CORK, source=CRM)
    with memory.run(workflow="triage", mode="buffered_write") as run:
        run.remember(CORK, source=HANDBOOK)

    memory.quarantine(run_id=run.identity.run_id, reason="incident 4")
    memory.quarantine(source=CRM, reason="incident 5")

    assert _texts(memory) == []


def _chain(memory: Memory) -> list[str]:
    """Bonn, then Oslo, then Rome, each superseding the one before; Oslo is of another user."""
    ids: list[str] = []
    for town, source in (("Bonn", ADA), ("Oslo", BEN), ("Rome", ADA)):
        said = memory.remember(f"Ada lives in {town}.", source=source, supersedes=ids[-1:])
        assert said.accepted
        ids.append(said.memory_id)
    return ids


def test_quarantine_of_the_middle_of_a_chain_leaves_the_newest_current(memory: Memory) -> None:
    _chain(memory)
    before = memory.recall("Where does Ada live?", now_utc="2027-01-01T00:00:00Z").package_hash

    done = memory.quarantine(source=BEN, reason="incident 4")

    assert (done.records, done.restored) == (1, 0)
    assert _texts(memory) == ["Ada lives in Rome."]
    memory.release(done.act_id, reason="it was right")
    assert memory.recall("Where does Ada live?", now_utc="2027-01-01T00:00:00Z").package_hash == before


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_quarantine_of_all_that_followed_brings_the_first_back(
    memory: Memory, order: tuple[int, int]
) -> None:
    _chain(memory)
    runs = [commit.run_id for commit in memory.store.commits()]

    acts = [memory.quarantine(run_id=runs[one], reason="incident 4") for one in order]

    assert _texts(memory) == ["Ada lives in Bonn."]
    for act in reversed(acts):
        memory.release(act.act_id, reason="it was right")
    assert _texts(memory) == ["Ada lives in Rome."]
    assert list(memory.verify()) == []


def test_of_two_acts_on_what_superseded_either_keeps_the_first_current(memory: Memory) -> None:
    first = memory.remember("Ada lives in Bonn.", source=ADA)
    memory.remember("Ada lives in Oslo.", source=BEN, supersedes=[first.memory_id])
    acts = [memory.quarantine(source=BEN, reason=f"incident {number}") for number in (4, 5)]

    memory.release(acts[0].act_id, reason="it was right")

    assert _texts(memory) == ["Ada lives in Bonn."]


def test_a_newer_text_of_the_subject_that_superseded_keeps_the_first_ended(memory: Memory) -> None:
    first = memory.remember("Ada lives in Bonn.", source=ADA)
    memory.remember("Ada lives in Oslo.", subject="home", source=BEN, supersedes=[first.memory_id])
    memory.remember("Ada lives in Rome.", subject="home", source=ADA)

    middle = memory.quarantine(source=BEN, reason="incident 4")
    assert (middle.restored, _texts(memory)) == (0, ["Ada lives in Rome."])
    newest = memory.quarantine("home", reason="incident 5")
    assert (newest.restored, _texts(memory)) == (1, ["Ada lives in Bonn."])


def test_law_is_listed_and_stays_and_what_cites_it_goes(memory: Memory) -> None:
    memory.remember("Refunds need two people.", subject="law/refunds", source=CRM, propose=True)
    (waiting,) = memory.approvals.waiting()
    memory.approvals.decide(decision(memory, waiting), signers=SIGNERS)
    memory.remember("Ask Bob too.", subject="ask", refs=[{"kind": "memory", "id": "law/refunds"}])

    done = memory.quarantine(source=CRM, reason="incident 4")

    assert [law.text for law in memory.records(band=Band.VAULT)] == ["Refunds need two people."]
    assert [one.partition("//")[2] for one in done.law] == ["law/refunds"]
    assert "ask" not in {one.memory_id for one in memory.records(band=Band.LEDGER)}
    assert "two people" in memory.recall("refunds").text
    memory.release(done.act_id, reason="it was right")
    assert "ask" in {one.memory_id for one in memory.records(band=Band.LEDGER)}
    assert list(memory.verify()) == []


def test_a_repeated_act_has_the_same_answer(memory: Memory) -> None:
    with memory.run(workflow="triage", mode="buffered_write") as run:
        run.remember("EU refunds take 1 day.", subject="policy/eu", source=HANDBOOK)
        run.remember("US refunds take 1 day.", subject="policy/us", source=HANDBOOK)
    memory.remember("EU refunds take 21 days.", subject="policy/eu", source=HANDBOOK)
    run_id = run.identity.run_id

    first = memory.revert(run_id=run_id, reason="wrong ticket", act_id="a")
    again = memory.revert(run_id=run_id, reason="wrong ticket", act_id="a")
    memory.remember("US refunds take 2 days.", subject="policy/us", source=HANDBOOK)
    later = memory.revert(run_id=run_id, reason="wrong ticket", act_id="a")

    assert len(first.conflicts) == 1
    plain = {**first.as_json(), "replayed": True}
    assert (again.as_json(), later.as_json(), first.replayed) == (plain, plain, False)


def test_what_was_forgotten_before_is_not_counted_as_restored(memory: Memory) -> None:
    memory.remember("EU refunds take 14 days.", subject="policy/eu", source=HANDBOOK)
    memory.forget("policy/eu", reason="asked to")
    memory.remember("EU refunds take 90 days.", subject="policy/eu", source=CRM)
    done = memory.quarantine(source=CRM, reason="incident 4")

    assert (done.records, done.restored) == (1, 0)
    assert _texts(memory) == []
