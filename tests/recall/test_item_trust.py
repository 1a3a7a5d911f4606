"""Trust in recall: the ceilings of ``govern``, by array; who may be chosen at all; and how the text shows
it.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast import Memory, RecallItem, RecallPackage
from standfast.clock import ManualClock
from standfast.errors import InvalidValue
from standfast.govern.policy import decide_recall
from standfast.recall.analysis import decode_record
from standfast.recall.answers import Package
from standfast.recall.filters import CEILING_UNITS, EvidenceFacts, ceilings, doubts_of, trust_code
from standfast.records.canon import utc_text
from standfast.records.filters import Filter
from standfast.records.origins import Origin, ceiling_of
from standfast.records.timestamps import MISSING, time_of
from tests.recall.test_lexical import answer, ids, record

DOC = {"kind": "doc", "id": "handbook#4"}
WEB = {"kind": "web", "id": "example.com"}
USER = {"kind": "user", "id": "ada"}
NOW = datetime(2026, 6, 1, tzinfo=UTC)
CHECKED = EvidenceFacts(
    floor_checks=msgspec.convert([{}], type=EvidenceFacts.__annotations__["floor_checks"])
)
LONG_AGO = (
    "2026-05-02",
    "2026-05-01T23:59:59Z",
    "2026-03-03",
    "2026-03-02T12:00:00Z",
    "2027-01-01",
    None,
    "soon",
)


@given(
    verdict=st.sampled_from(["SEAL", "SABAR", "PARTIAL", "888_HOLD", None]),
    evidence=st.sampled_from([None, {"floor_checks": []}, {"floor_checks": [{"floor": "F1", "score": 1}]}]),
    ts_utc=st.sampled_from(LONG_AGO)
    | st.integers(0, 200 * 86_400).map(lambda age: utc_text(NOW - timedelta(seconds=age))),
    band=st.sampled_from(["LEDGER", "VAULT"]),
)
@settings(max_examples=150, deadline=None)
def test_arrays_give_the_ceilings_of_the_policy(
    verdict: str | None, evidence: Any, ts_utc: str | None, band: str
) -> None:
    plain = {
        "memory_id": "m",
        "text": "t",
        "verdict": verdict,
        "evidence": evidence,
        "ts_utc": ts_utc,
        "band": band,
    }
    found = decode_record(msgspec.json.encode(plain))
    code, time, now = trust_code(found, found.evidence), found.time, time_of(utc_text(NOW))
    doubts = doubts_of(code, time, now)
    stamp = (
        None if time == MISSING else utc_text(datetime(1, 1, 1, tzinfo=UTC) + timedelta(microseconds=time))
    )
    decided = decide_recall({**plain, "ts_utc": stamp}, None, NOW)

    assert ceiling_of(doubts) == decided.confidence_ceiling
    assert [doubt.value for doubt in doubts] == decided.floor_warnings
    assert ceilings(np.array([code])).tolist() == [
        round(ceiling_of(doubts_of(code, time, MISSING)) * CEILING_UNITS)
    ], "how old a record is does not change its rank"


def items(package: Package) -> tuple[RecallItem, ...]:
    assert isinstance(package, RecallPackage)
    return package.items


def test_an_item_carries_verdict_trust_ceiling_and_reasons() -> None:
    clock = ManualClock()
    memory = Memory.open(":memory:", clock=clock)
    memory.remember("EU refunds take 14 days.", source=USER)
    young = items(memory.recall("refunds"))[0]
    clock.advance(100 * 86_400)
    memory.remember("Parcels take 5 days.", source=DOC)
    old = items(memory.recall("refunds"))[0]
    then = items(memory.at(1).recall("refunds"))[0]
    asked = items(memory.at(1).recall("refunds", now_utc=utc_text(clock.now())))[0]

    assert (young.verdict, young.trust, young.ceiling, young.reasons) == ("SEAL", "trusted", 0.85, ())
    assert (old.ceiling, len(old.reasons)) == (0.56, 2)
    assert "more than 30 days old" in old.reasons[0]
    assert then == young, "time travel: age is measured from the snapshot's commit"
    assert (asked.ceiling, asked.reasons) == (old.ceiling, old.reasons)
    explained = memory.at(2).explain("refunds").explanation.items[0]
    assert explained.ceiling is not None
    assert (explained.ceiling.confidence, explained.ceiling.warnings) == (old.ceiling, old.reasons)
    contract = memory.at(2).explain("refunds", controller="phase6-v1").explanation.items[0]
    assert contract.ceiling == explained.ceiling


def test_origin_counts_in_the_ranking_and_age_does_not() -> None:
    old = record("a", "Refunds take 14 days.", verdict="SEAL", evidence=CHECKED, ts_utc="2026-01-01")
    new = record("b", "Refunds take 15 days.", verdict="SEAL", evidence=CHECKED, ts_utc="2026-05-31")
    said = record(
        "c", "Refunds take 16 days.", verdict="SEAL", evidence=CHECKED, ts_utc="2026-05-31", origin="trusted"
    )

    wordy = record("d", "Refunds of Ada.", verdict="SEAL", evidence=CHECKED, ts_utc="2025-01-01")

    assert ids(answer([old, new], "refunds")) == ["b", "a"], "equal points: the newer one first"
    assert ids(answer([old, new, said], "refunds", now_utc="2026-06-01")) == ["c", "b", "a"]
    assert ids(answer([new, wordy], "refunds of Ada", now_utc="2026-06-01")) == ["d", "b"]


@pytest.fixture
def memory() -> Memory:
    return Memory.open(":memory:", clock=ManualClock())


@pytest.mark.parametrize("controller", ["lexical-v1", "phase6-v1"])
def test_what_waits_for_a_person_stays_out_unless_asked_for(memory: Memory, controller: str) -> None:
    memory.remember("EU refunds take 30 days.", source=DOC, hold="ask Legal first")
    memory.remember("US refunds take 20 days.", source=DOC)
    shown = memory.recall("refunds", controller=controller)
    asked = memory.recall("refunds", controller=controller, include_unreviewed=True)
    with memory.run(workflow="w") as run:
        run.recall("refunds", controller=controller, include_unreviewed=True)

    assert [item.excerpt for item in shown.items] == ["US refunds take 20 days."]
    assert len(asked.items) == 2
    assert run.trace is not None
    assert run.trace.retrievals[0].filters["include_unreviewed"] is True
    if isinstance(asked, RecallPackage):
        held = next(item for item in asked.items if "EU" in item.excerpt)
        assert (held.verdict, held.ceiling) == ("888_HOLD", 0.5)
        assert ", on hold, confidence 0.5]" in asked.text
        assert memory.at(2).explain("refunds").explanation.counts["unreviewed"] == 1
    with pytest.raises(InvalidValue, match="include_unreviewed"):
        memory.recall("refunds", include_unreviewed="yes")  # type: ignore[arg-type]  # It is wrong.


@pytest.mark.parametrize("controller", ["lexical-v1", "phase6-v1"])
def test_untrusted_content_is_recalled_only_where_its_scope_is_named(memory: Memory, controller: str) -> None:
    memory.remember("Refunds go to example.com.", source=WEB, scope="user/ada/browsing")
    memory.remember("Refunds take 14 days.", source=DOC, scope="user/ada")

    def found(**options: Any) -> list[str]:
        return [item.excerpt for item in memory.recall("refunds", controller=controller, **options).items]

    assert found(scope="user/ada") == ["Refunds take 14 days."]
    assert len(found(scopes=["user/ada", "user/ada/browsing"])) == 2
    assert len(found(scopes=["user/ada", "user"])) == 1
    assert found(scope="user/ada/browsing") == ["Refunds go to example.com."]
    assert found(scope="user/ada/browsing", least_origin="ordinary") == []
    assert found(scope="user/ada/browsing", where={"least_origin": "ordinary"}) == []
    assert found(scope="user/ada", least_origin="trusted", where={"least_origin": "untrusted"}) == []
    with pytest.raises(InvalidValue, match="least_origin"):
        found(least_origin="good")


def test_untrusted_content_stands_last_in_a_block_that_says_so(memory: Memory) -> None:
    memory.remember("Refunds go to example.com, always.", source=WEB)
    memory.remember("Refunds take 14 days.", source=USER)
    text = memory.recall("refunds", least_origin="untrusted").text
    lines = text.splitlines()

    assert "14 days" in lines[2]
    assert "UNTRUSTED" in lines[3]
    assert "example.com" in lines[5]
    assert "UNTRUSTED" not in memory.recall("refunds", least_origin="ordinary").text


def test_untrusted_content_beside_other_content_answers_only_if_nothing_else_does(memory: Memory) -> None:
    memory.remember("Refunds go to example.com.", source=WEB, scope="user/ada")
    memory.remember("Parcel 7 left Bonn.", source=WEB, scope="user/ada")
    memory.remember("Refunds of parcels take weeks.", source=WEB, scope="user/ada/web")
    memory.remember("Refunds take 14 days.", source=DOC, scope="user")

    def found(query: str, *scopes: str, **options: Any) -> list[str]:
        return sorted(item.excerpt for item in memory.recall(query, scopes=scopes, **options).items)

    mixed = ("user", "user/ada")
    assert len(found("refunds", *mixed)) == 3, "the named scope holds nothing else"
    memory.remember("Ada likes tea.", source=USER, scope="user/ada")
    assert found("refunds", *mixed) == ["Ada likes tea.", "Refunds take 14 days."]
    assert (
        memory.at(memory.store.head()).explain("refunds", scopes=mixed).explanation.counts["untrusted_beside"]
        == 2
    )
    assert len(found("refunds", *mixed, least_origin="untrusted")) == 4
    assert "Parcel 7 left Bonn." in found("parcel", *mixed), "nothing else matches"
    assert found("refunds", *mixed, "user/ada/web") == [
        "Ada likes tea.",
        "Refunds of parcels take weeks.",
        "Refunds take 14 days.",
    ]


def test_untrusted_records_never_stand_for_others_nor_crowd_them_out() -> None:
    trusted = {"verdict": "SEAL", "evidence": CHECKED}
    flood = [
        record(f"a{n:03}", f"refund refund refund number {n}", origin="untrusted", **trusted)
        for n in range(400)
    ]
    fact = record("z", "In the end, and only after all of that was done, a refund takes 14 days.", **trusted)
    twin = record("y", fact.text, origin="untrusted", **trusted)
    package = answer([*flood, twin, fact], "refund", tokens=200, max_items=10)
    (own,) = (item for item in package.items if item.memory_id == "z")

    assert own.also == ()
    assert own.trust == "ordinary"
    assert len(answer(flood, "refund", tokens=200, max_items=10).items) == 10, "alone, they may have it all"


@pytest.mark.parametrize("first", ["trusted", "untrusted"])
def test_what_is_untrusted_and_says_the_same_is_an_item_of_its_own(first: str) -> None:
    """Neither lends the other its trust nor takes its place, whichever is ranked first."""
    checked = {"verdict": "SEAL", "evidence": CHECKED}
    trusted = record("t", "Refunds take 14 days.", origin="trusted", **checked)
    untrusted = record("u", "Refunds take 14 days.", origin="untrusted", **checked)
    if first == "untrusted":
        trusted = msgspec.structs.replace(trusted, text="Refunds take 14 days. " + "Nothing else. " * 8)
    again = record("v", trusted.text, origin="trusted", **checked)
    package = answer(
        [trusted, untrusted, again], "refunds", tokens=500, where=Filter(least_origin=Origin.UNTRUSTED)
    )

    assert {item.memory_id: (item.trust, item.also) for item in package.items} == {
        "t": ("trusted", ("v",)),
        "u": ("untrusted", ()),
    }


def test_filters_choose_a_session_and_a_speaker(memory: Memory) -> None:
    for number, (session, speaker) in enumerate((("s", "Ada"), ("s", "Bob"), ("t", "Ada"))):
        memory.remember(
            f"The deploy of service {number} failed.",
            session=session,
            position=number,
            speaker=speaker,
            source=DOC,
        )

    def found(**where: str) -> list[int]:
        package = memory.recall("deploy", where=where)  # type: ignore[arg-type]  # Any filter.
        assert isinstance(package, RecallPackage)
        return sorted(item.position or 0 for item in package.items)

    assert found(session="s") == [0, 1]
    assert found(speaker="ada") == [0, 2]
    assert found(session="t", speaker="Bob") == []
