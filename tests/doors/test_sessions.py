"""Sessions by API key: random, bound to the key, over in time, and safe from other pages."""

from pathlib import Path

import pytest

from holdfast.clock import ManualClock
from holdfast.errors import Forbidden, Unauthenticated
from holdfast.limits import MAX_SESSIONS, SESSION_IDLE_SECONDS, SESSION_SECONDS
from holdfast.web.sessions import COOKIE, Sessions
from tests.doors.conftest import House, make_hall


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def house(tmp_path: Path, clock: ManualClock) -> House:
    return House(make_hall(tmp_path / "s.db", clock=clock))


def _cookie(header: str) -> str:
    return header.partition(";")[0].removeprefix(f"{COOKIE}=")


def test_a_session_stands_for_its_key(house: House) -> None:
    sessions = Sessions(house.hall, path="/console", is_secure=True)
    session, header = sessions.open(house.token("auditor", "*"), peer="here")
    again, caller = sessions.find(_cookie(header))

    assert again is session
    assert caller == house.caller("auditor", "*")
    assert {"HttpOnly", "SameSite=Strict", "Secure", "Path=/console"} <= set(header.split("; "))
    assert _cookie(header) not in repr(vars(sessions))


def test_nobody_opens_or_guesses_one(house: House) -> None:
    sessions = Sessions(house.hall, path="/console", is_secure=False)
    with pytest.raises(Unauthenticated):
        sessions.open("hf_wrong", peer="here")
    for cookie in (None, "", "x", "\udc80"):
        with pytest.raises(Unauthenticated):
            sessions.find(cookie)


def test_a_session_ends_with_its_key_with_time_and_when_told(house: House, clock: ManualClock) -> None:
    sessions = Sessions(house.hall, path="/console", is_secure=False)
    told, idle, old, keyless = (
        _cookie(sessions.open(house.token("auditor", "*"), peer="here")[1]) for _ in range(4)
    )
    assert "Max-Age=0" in sessions.close(told)
    with pytest.raises(Unauthenticated):
        sessions.find(told)
    for _ in range(int(SESSION_SECONDS // SESSION_IDLE_SECONDS)):
        clock.advance(SESSION_IDLE_SECONDS)
        sessions.find(old)
        sessions.find(keyless)
    with pytest.raises(Unauthenticated, match="over"):
        sessions.find(idle)
    house.hall.keyring.revoke(house.caller("auditor", "*").key_id)
    with pytest.raises(Unauthenticated, match="revoked"):
        sessions.find(keyless)
    clock.advance(1)
    with pytest.raises(Unauthenticated, match="over"):
        sessions.find(old)


def test_a_form_must_be_the_sessions_own(house: House) -> None:
    sessions = Sessions(house.hall, path="/console", is_secure=False)
    mine, header = sessions.open(house.token("operator", "*"), peer="here")
    other, _ = sessions.open(house.token("operator", "*"), peer="here")
    _, caller = sessions.find(_cookie(header))
    sessions.require_form(mine, mine.form_token, caller, "decide")
    for token in (None, "", other.form_token, "ä"):
        with pytest.raises(Forbidden):
            sessions.require_form(mine, token, caller, "decide")


def test_sessions_are_bounded(house: House) -> None:
    sessions = Sessions(house.hall, path="/console", is_secure=False)
    headers = [sessions.open(house.token("auditor", "*"), peer="here")[1] for _ in range(MAX_SESSIONS + 1)]
    sessions.find(_cookie(headers[-1]))
    with pytest.raises(Unauthenticated):
        sessions.find(_cookie(headers[0]))
