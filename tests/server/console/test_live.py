"""Live updates: the activity page without scripts, the stream of a session, and its end."""

import http.client
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from standfast.server.console.home_pages import line_of
from standfast.server.operations.event_operations import events_after, last_entry
from tests.server.console.browser import serving
from tests.server.console.conftest import BrowserClient, browser_client, elements_of, words_of
from tests.server.console.sample_server import SampleServer, sample_server


def test_the_activity_page_lists_the_newest_first_without_scripts(
    harness: SampleServer, operator: BrowserClient
) -> None:
    answer = operator.get("/console/activity")
    text = words_of(answer)
    body = next(attributes for tag, attributes in elements_of(answer) if tag == "body")

    proposed = text.index("proposed Refunds over 500 euros take two signatures. 2026")
    assert proposed < text.index("remembered EU refunds take 14 days. 2026")
    assert "rejected The deploy key is [redacted: AWS access key id] and it works. 2026" in text
    assert "@1." not in text
    assert body["data-events"] == "/console/events"
    assert body["data-namespace"] == harness.namespace
    assert (
        int(str(body["data-after"]))
        >= harness.gateway.store.commit_of(harness.gateway.store.head()).ledger_seq
    )


def test_agents_are_not_told_of_what_was_rejected(agent: BrowserClient) -> None:
    text = words_of(agent.get("/console/activity"))

    assert "EU refunds take 14 days." in text
    assert "The deploy key is" not in text


def test_a_page_starts_its_stream_behind_everything_that_it_shows(tmp_path: Path) -> None:
    """A refused call before the page was loaded is no news."""
    with (
        sample_server(tmp_path, memory_only=True) as server,
        browser_client(server, server.operator) as client,
    ):
        client.get("/console/search?in=standfast")
        server.gateway.access_log.flush()
        caller = server.gateway.keyring.authenticate(server.operator)
        after = last_entry(server.gateway, caller)
        shown = words_of(client.get("/console/activity"))
        events, _ = events_after(server.gateway, caller, after)

    assert "A call was refused: search, forbidden." in shown
    assert events == []


def test_every_event_has_a_line_and_a_page(harness: SampleServer, operator: BrowserClient) -> None:
    caller = harness.gateway.keyring.authenticate(harness.operator)
    events, _ = events_after(harness.gateway, caller, 0)
    lines = {line_of(harness.gateway.home, event).to for event in events}

    assert {operator.get(address).status_code for address in sorted(lines)} == {200}


def test_nobody_follows_events_without_a_session_or_from_another_site(
    harness: SampleServer, operator: BrowserClient
) -> None:
    with browser_client(harness) as nobody:
        anonymous = nobody.get("/console/events")
    foreign = operator.get("/console/events", headers={"Sec-Fetch-Site": "cross-site"})

    assert (anonymous.status_code, foreign.status_code) == (401, 401)


@pytest.mark.parametrize("end", ["sign out", "revoke"])
def test_a_stream_tells_what_happens_and_ends_with_the_session(tmp_path: Path, end: str) -> None:
    with (
        sample_server(tmp_path, memory_only=True) as server,
        browser_client(server, server.operator) as client,
        serving(server) as address,
    ):
        cookie = "; ".join(f"{one.name}={one.value}" for one in client.client.cookies.jar)
        client.get("/console/")
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        connection.request("GET", "/console/events", headers={"Cookie": cookie})
        stream = connection.getresponse()
        server.gateway.home.remember("The gate in Oslo is shut.", subject="place/oslo")
        told = b""
        while b"place/oslo" not in told:
            told += stream.readline()
        if end == "sign out":
            client.post("/console/logout")
        else:
            caller = server.gateway.keyring.authenticate(server.operator)
            server.gateway.keyring.revoke(caller.key_id)
        rest = stream.read()
        connection.close()

    assert stream.status == 200
    assert b"event: commit" in told
    assert b"shut" not in told + rest
