"""Sign-in, session cookies and form tokens."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from standfast.clock import ManualClock
from standfast.limits import CONSOLE_SESSION_SECONDS
from standfast.server.console.login import COOKIE, SESSION_KIND, ConsoleSessions
from standfast.store.in_memory import InMemoryTemporaryRows
from tests.server.console.conftest import BrowserClient, browser_client, words_of
from tests.server.console.sample_server import SampleServer, sample_server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[SampleServer]:
    """A server that a test may change."""
    with sample_server(tmp_path, memory_only=True) as built:
        yield built


def _refusals(harness: SampleServer) -> list[dict[str, str]]:
    harness.gateway.access_log.flush()
    entries = [entry.read() for entry in harness.gateway.store.entries()]
    return [entry["body"]["told"].get("refused", {}) for entry in entries if entry["kind"] == "access"]


def _sessions(clock: ManualClock | None = None) -> ConsoleSessions:
    return ConsoleSessions(InMemoryTemporaryRows(clock or ManualClock()))


def test_a_session_is_valid_until_its_time_is_over() -> None:
    clock = ManualClock()
    sessions = _sessions(clock)
    session = sessions.begin("key-1")
    clock.advance(CONSOLE_SESSION_SECONDS - 1)
    known = sessions.read(session.token)
    clock.advance(1)
    over = sessions.read(session.token)

    assert known == session
    assert known.key_id == "key-1"
    assert over is not None
    assert not over.is_signed_in


def test_a_session_that_ended_never_comes_back_and_others_stay() -> None:
    sessions = _sessions()
    ended, stays = sessions.begin("key-1"), sessions.begin("key-1")
    sessions.end(ended)
    sessions.end(sessions.begin())
    found = sessions.read(ended.token)

    assert found is not None
    assert not found.is_signed_in
    assert sessions.read(stays.token) == stays


def test_what_is_no_cookie_of_ours_is_no_session_and_a_changed_one_is_signed_out() -> None:
    sessions = _sessions()
    cookie = sessions.begin("key-1").token
    changed = [
        cookie[:place] + ("a" if letter != "a" else "b") + cookie[place + 1 :]
        for place, letter in enumerate(cookie)
    ]
    read = [sessions.read(one) for one in changed]

    assert all(one is not None and not one.is_signed_in for one in read)
    assert all(sessions.read(one) is None for one in ["", "x", None, "é" * 64, cookie[:-1], cookie + "a"])


def test_sessions_hold_and_end_at_every_server_of_the_store() -> None:
    rows = InMemoryTemporaryRows(ManualClock())
    first, second = ConsoleSessions(rows), ConsoleSessions(rows)
    session = first.begin("key-1")
    held = second.read(session.token)
    second.end(session)
    ended = first.read(session.token)

    assert held == session
    assert ended is not None
    assert not ended.is_signed_in


def test_the_store_holds_no_cookie() -> None:
    rows = InMemoryTemporaryRows(ManualClock())
    session = ConsoleSessions(rows).begin("key-1")
    (row,) = rows.scan(SESSION_KIND, "", limit=2)

    assert session.token not in row.row_id + row.content.decode()


def test_a_form_token_is_valid_for_its_own_session_only() -> None:
    sessions = _sessions()
    first, second = sessions.begin("key-1"), sessions.begin("key-1")

    assert first.is_own_form(first.form_token)
    assert not first.is_own_form(second.form_token)
    assert not first.is_own_form("")


@pytest.mark.parametrize("behind_tls", [False, True])
def test_the_cookie_is_strict_and_hidden_from_scripts(harness: SampleServer, behind_tls: bool) -> None:
    with browser_client(harness, behind_tls=behind_tls) as client:
        cookie = client.sign_in(harness.operator).headers["set-cookie"]

    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/console" in cookie
    assert ("Secure" in cookie) == behind_tls
    assert harness.operator not in cookie


def test_signing_in_begins_a_session_with_a_new_id(harness: SampleServer) -> None:
    with browser_client(harness) as client:
        client.get("/console/login")
        before = client.client.cookies[COOKIE]
        client.post("/console/login", key=harness.operator, to="/console/")
        after = client.client.cookies[COOKIE]
        client.client.cookies.clear()
        client.client.cookies.set(COOKIE, before, path="/console")

        assert before != after
        assert client.get("/console/").status_code == 303


def test_an_invalid_key_is_refused_and_logged(own_server: SampleServer) -> None:
    wrong = own_server.operator[:-1] + ("0" if own_server.operator[-1] != "0" else "1")
    with browser_client(own_server) as client:
        answer = client.sign_in(wrong)

        assert answer.status_code == 401
        assert "This key is not valid" in words_of(answer)
        assert wrong not in answer.text
        assert client.get("/console/").status_code == 303
    assert [one["operation"] for one in _refusals(own_server)] == ["login"]


def test_a_revoked_key_ends_its_sessions_at_once(own_server: SampleServer) -> None:
    with browser_client(own_server, own_server.auditor) as client:
        before = client.get("/console/").status_code
        own_server.gateway.keyring.revoke(own_server.auditor.split("_")[1])

        assert (before, client.get("/console/").status_code) == (200, 401)


def test_a_cookie_is_worthless_after_signing_out(harness: SampleServer) -> None:
    with browser_client(harness, harness.operator) as client:
        client.get("/console/")
        old_cookie = client.client.cookies[COOKIE]
        left = client.post("/console/logout")
        client.client.cookies.set(COOKIE, old_cookie, path="/console")

        assert left.status_code == 303
        assert client.get("/console/").headers["location"].startswith("/console/login")


FORMS = ("/console/ledger", "/console/proposal")


@pytest.mark.parametrize("address", FORMS)
@pytest.mark.parametrize("token", ["", "0" * 64, "another session's"])
def test_a_form_without_its_token_does_nothing(own_server: SampleServer, address: str, token: str) -> None:
    head = own_server.gateway.store.head()
    with (
        browser_client(own_server, own_server.auditor) as other,
        browser_client(own_server, own_server.operator) as client,
    ):
        other.get("/console/")
        client.token = other.token if token == "another session's" else token
        answer = client.post(address, id=own_server.proposal_id, statement="{}", signature="none")

    assert answer.status_code == 403
    assert "did not come from a page of this session" in words_of(answer)
    assert own_server.gateway.store.head() == head
    assert _refusals(own_server)[-1]["code"] == "forbidden"


def test_a_cross_site_form_is_refused(harness: SampleServer) -> None:
    with browser_client(harness, harness.operator) as client:
        client.get("/console/ledger")
        client.client.headers["sec-fetch-site"] = "cross-site"

        assert client.post("/console/ledger").status_code == 403


def test_signing_out_needs_the_form_token(harness: SampleServer) -> None:
    with browser_client(harness, harness.operator) as client:
        client.token = "none"
        client.post("/console/logout")

        assert client.get("/console/").status_code == 200


def test_a_login_form_without_its_cookie_is_shown_again(harness: SampleServer) -> None:
    with browser_client(harness) as client:
        answer = client.post("/console/login", key=harness.operator, to="/console/")

    assert answer.status_code == 403
    assert "had expired" in words_of(answer)


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
def test_signing_in_redirects_only_within_the_console(harness: SampleServer, to: str) -> None:
    with browser_client(harness) as client:
        page = client.get("/console/login", params={"to": to})
        answer = client.post("/console/login", key=harness.operator, to=to)

    assert re.search(r'name="to" value="/console/"', page.text)
    assert answer.headers["location"] == "/console/"


def test_a_link_from_another_site_reloads_once_to_send_the_strict_cookie(harness: SampleServer) -> None:
    with browser_client(harness, harness.operator) as client:
        cookies = dict(client.client.cookies)
        client.client.cookies.clear()
        answer = client.get("/console/search", headers={"sec-fetch-site": "cross-site"})
        client.client.cookies.update(cookies)

        assert answer.status_code == 200
        assert 'http-equiv="refresh"' in answer.text
        assert "set-cookie" not in answer.headers
        assert client.get("/console/search").status_code == 200


def test_a_request_without_a_session_goes_to_the_login_page_and_back(harness: SampleServer) -> None:
    with browser_client(harness) as client:
        led = client.get("/console/search?q=refunds").headers["location"]
        page = client.get(led)
        back = client.post("/console/login", key=harness.operator, to="/console/search?q=refunds")

    assert 'value="/console/search?q=refunds"' in page.text
    assert back.headers["location"] == "/console/search?q=refunds"


def test_too_many_wrong_keys_are_rate_limited(own_server: SampleServer) -> None:
    with browser_client(own_server) as client:
        answers = [client.sign_in("sf_none") for _ in range(60)]

    assert {answer.status_code for answer in answers} == {401, 429}
    assert "Too many attempts" in words_of(answers[-1])


def test_an_unreadable_form_is_refused(operator: BrowserClient) -> None:
    answer = operator.client.post("/console/ledger", content=b"form_token=%ff")

    assert answer.status_code == 400
