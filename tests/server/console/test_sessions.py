"""Signing in: who is let in, for how long, and that no form of another site is taken."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.limits import CONSOLE_SESSION_SECONDS
from standfast.server.console.entrance import COOKIE
from standfast.server.console.sessions import Sessions
from tests.server.console.conftest import Visitor, visiting, words_of
from tests.server.console.furnished import Furnished, furnished


@pytest.fixture
def own_house(tmp_path: Path) -> Iterator[Furnished]:
    """A harness that a test may change."""
    with furnished(tmp_path, memory_only=True) as built:
        yield built


def _refusals(harness: Furnished) -> list[dict[str, str]]:
    harness.gateway.access_log.flush()
    told = [entry.read() for entry in harness.gateway.store.entries()]
    return [entry["body"]["told"].get("refused", {}) for entry in told if entry["kind"] == "access"]


def test_a_session_is_known_again_until_it_ends() -> None:
    clock = ManualClock()
    sessions = Sessions(clock=clock, ids=CountedIds())
    cookie = sessions.cookie_of(sessions.begin("key-1"))
    clock.advance(CONSOLE_SESSION_SECONDS - 1)
    known = sessions.read(cookie)
    clock.advance(1)

    assert known is not None
    assert known.key_id == "key-1"
    assert sessions.read(cookie) is None


def test_a_cookie_that_was_changed_anywhere_is_no_session() -> None:
    sessions = Sessions(clock=ManualClock(), ids=CountedIds())
    cookie = sessions.cookie_of(sessions.begin("key-1"))
    changed = [
        cookie[:place] + ("A" if letter != "A" else "B") + cookie[place + 1 :]
        for place, letter in enumerate(cookie)
    ]

    assert all(sessions.read(one) is None for one in [*changed, "", ".", "a.b", None, "é.é", cookie[:-1]])


def test_another_process_knows_none_of_the_sessions() -> None:
    mine, others = (Sessions(clock=ManualClock(), ids=CountedIds()) for _ in range(2))
    session = mine.begin("key-1")

    assert others.read(mine.cookie_of(session)) is None
    assert not others.is_own_form(session, mine.form_token(session))


def test_a_form_token_is_good_for_its_own_session_alone() -> None:
    sessions = Sessions(clock=ManualClock(), ids=CountedIds())
    first, second = sessions.begin("key-1"), sessions.begin("key-1")

    assert sessions.is_own_form(first, sessions.form_token(first))
    assert not sessions.is_own_form(first, sessions.form_token(second))
    assert not sessions.is_own_form(first, "")


@pytest.mark.parametrize("behind_tls", [False, True])
def test_the_cookie_is_for_this_site_and_no_script(harness: Furnished, behind_tls: bool) -> None:
    with visiting(harness, behind_tls=behind_tls) as visitor:
        told = visitor.sign_in(harness.operator).headers["set-cookie"]

    assert "HttpOnly" in told
    assert "SameSite=strict" in told
    assert "Path=/console" in told
    assert ("Secure" in told) == behind_tls
    assert harness.operator not in told


def test_signing_in_begins_a_session_under_another_id(harness: Furnished) -> None:
    with visiting(harness) as visitor:
        visitor.get("/console/login")
        before = visitor.client.cookies[COOKIE]
        visitor.post("/console/login", key=harness.operator, to="/console/")
        after = visitor.client.cookies[COOKIE]
        visitor.client.cookies.clear()
        visitor.client.cookies.set(COOKIE, before, path="/console")

        assert before != after
        assert visitor.get("/console/").status_code == 303


def test_a_key_that_opens_nothing_is_told_so_and_to_the_access_log(own_house: Furnished) -> None:
    wrong = own_house.operator[:-1] + ("0" if own_house.operator[-1] != "0" else "1")
    with visiting(own_house) as visitor:
        answer = visitor.sign_in(wrong)

        assert answer.status_code == 401
        assert "That key opens nothing" in words_of(answer)
        assert wrong not in answer.text
        assert visitor.get("/console/").status_code == 303
    assert [one["operation"] for one in _refusals(own_house)] == ["login"]


def test_a_revoked_key_ends_its_sessions_at_once(own_house: Furnished) -> None:
    with visiting(own_house, own_house.auditor) as visitor:
        before = visitor.get("/console/").status_code
        own_house.gateway.keyring.revoke(own_house.auditor.split("_")[1])

        assert (before, visitor.get("/console/").status_code) == (200, 401)


def test_who_signs_out_can_not_come_back_with_the_old_cookie(harness: Furnished) -> None:
    with visiting(harness, harness.operator) as visitor:
        visitor.get("/console/")
        kept = visitor.client.cookies[COOKIE]
        left = visitor.post("/console/logout")
        visitor.client.cookies.set(COOKIE, kept, path="/console")

        assert left.status_code == 303
        assert visitor.get("/console/").headers["location"].startswith("/console/login")


FORMS = ("/console/ledger", "/console/proposal")


@pytest.mark.parametrize("address", FORMS)
@pytest.mark.parametrize("token", ["", "0" * 64, "another session's"])
def test_a_form_without_its_token_does_nothing(own_house: Furnished, address: str, token: str) -> None:
    head = own_house.gateway.store.head()
    with visiting(own_house, own_house.auditor) as other, visiting(own_house, own_house.operator) as visitor:
        other.get("/console/")
        visitor.token = other.token if token == "another session's" else token
        answer = visitor.post(address, id=own_house.proposal_id, statement="{}", signature="none")

    assert answer.status_code == 403
    assert "did not come from a page of this session" in words_of(answer)
    assert own_house.gateway.store.head() == head
    assert _refusals(own_house)[-1]["code"] == "forbidden"


def test_a_form_that_the_browser_says_is_another_sites_is_refused(harness: Furnished) -> None:
    with visiting(harness, harness.operator) as visitor:
        visitor.get("/console/ledger")
        visitor.client.headers["sec-fetch-site"] = "cross-site"

        assert visitor.post("/console/ledger").status_code == 403


def test_signing_out_takes_its_token_too(harness: Furnished) -> None:
    with visiting(harness, harness.operator) as visitor:
        visitor.token = "none"
        visitor.post("/console/logout")

        assert visitor.get("/console/").status_code == 200


def test_a_sign_in_form_without_its_cookie_is_given_anew(harness: Furnished) -> None:
    with visiting(harness) as visitor:
        answer = visitor.post("/console/login", key=harness.operator, to="/console/")

    assert answer.status_code == 403
    assert "too old" in words_of(answer)


@pytest.mark.parametrize(
    "to",
    [
        "https://example.com/",
        "//example.com",
        "/v1/verify",
        "/console/\\example.com",
        "javascript:alert(1)",
        "/console/é",
    ],
)
def test_signing_in_leads_to_pages_of_ours_alone(harness: Furnished, to: str) -> None:
    with visiting(harness) as visitor:
        page = visitor.get("/console/login", params={"to": to})
        answer = visitor.post("/console/login", key=harness.operator, to=to)

    assert re.search(r'name="to" value="/console/"', page.text)
    assert answer.headers["location"] == "/console/"


def test_a_link_from_elsewhere_comes_in_with_the_strict_cookie_after_one_step(harness: Furnished) -> None:
    with visiting(harness, harness.operator) as visitor:
        cookies = dict(visitor.client.cookies)
        visitor.client.cookies.clear()
        answer = visitor.get("/console/memory", headers={"sec-fetch-site": "cross-site"})
        visitor.client.cookies.update(cookies)

        assert answer.status_code == 200
        assert 'http-equiv="refresh"' in answer.text
        assert "set-cookie" not in answer.headers
        assert visitor.get("/console/memory").status_code == 200


def test_who_is_not_signed_in_is_led_to_the_door_and_back(harness: Furnished) -> None:
    with visiting(harness) as visitor:
        led = visitor.get("/console/memory?q=refunds").headers["location"]
        page = visitor.get(led)
        back = visitor.post("/console/login", key=harness.operator, to="/console/memory?q=refunds")

    assert 'value="/console/memory?q=refunds"' in page.text
    assert back.headers["location"] == "/console/memory?q=refunds"


def test_too_many_wrong_keys_are_slowed_down(own_house: Furnished) -> None:
    with visiting(own_house) as visitor:
        answers = [visitor.sign_in("sf_none") for _ in range(60)]

    assert {answer.status_code for answer in answers} == {401, 429}
    assert "Too many tries" in words_of(answers[-1])


def test_a_form_that_can_not_be_read_is_refused(operator: Visitor) -> None:
    answer = operator.client.post("/console/ledger", content=b"form_token=%ff")

    assert answer.status_code == 400
