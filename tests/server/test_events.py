"""Live events: who is told what, in which form, and that nobody misses one."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from standfast.client import Client
from standfast.errors import Unauthenticated
from standfast.server.access.permissions import Permission
from standfast.server.edge.event_streams import encoded
from standfast.server.operations.event_operations import ServerEvent, events_after, newest_entry
from tests.memory.conftest import SECRET
from tests.server.harness import HANDBOOK, Harness, Served

_REMEMBER = Permission.REMEMBER


def _told(harness: Harness, *caller: str) -> list[tuple[str, str | None]]:
    events, _ = events_after(harness.gateway, harness.caller(*caller), 0)
    return [(event.kind, event.namespace) for event in events]


def _write(harness: Harness, namespace: str) -> None:
    memory = harness.gateway.authorize(harness.caller("operator"), _REMEMBER, namespace)
    memory.remember("EU refunds take 14 days.", subject="policy/eu-refunds", source=HANDBOOK)
    memory.remember("Refunds over 100 EUR need two people.", source=HANDBOOK, propose=True)
    memory.remember(SECRET, source=HANDBOOK)


def test_each_caller_is_told_of_its_own_namespaces_and_of_what_its_role_may_see(harness: Harness) -> None:
    _write(harness, "a")
    _write(harness, "b")
    harness.gateway.log_refusal(
        Unauthenticated(problem="the key is unknown"),
        interface="http",
        operation="recall",
        caller=None,
        namespace="a",
        peer="10.0.0.1",
    )
    own = [("commit", "a"), ("proposal", "a")]

    assert _told(harness, "agent", "a") == own
    assert _told(harness, "auditor", "a") == [*own, ("refusal", "a")]
    assert _told(harness, "operator", "a") == [*own, ("refusal", "a")]
    assert _told(harness, "agent", "c") == []
    assert _told(harness, "agent") == [*own, ("commit", "b"), ("proposal", "b")]
    assert _told(harness, "auditor")[-1] == ("refusal", None)
    assert len(_told(harness, "auditor")) == 7


def test_an_event_names_records_and_holds_no_text(harness: Harness) -> None:
    _write(harness, "a")
    events, seen = events_after(harness.gateway, harness.caller("operator", "a"), 0)
    commit, proposal, refusal = events
    written = json.dumps([event.as_json() for event in events])

    assert [(one.memory_id, one.band, one.scope, one.action) for one in commit.records] == [
        ("policy/eu-refunds", "ACTIVE", "shared", "WRITE"),
        ("policy/eu-refunds", "LEDGER", "shared", "WRITE"),
    ]
    assert commit.changed == 2
    assert proposal.proposal_id in {
        one.proposal.proposal_id
        for one in harness.gateway.authorize(harness.caller("operator"), _REMEMBER, "a").approvals.waiting()
    }
    assert proposal.action == "WRITE"
    assert refusal.records[0].band == "VOID"
    assert "refunds take" not in written.lower()
    assert events_after(harness.gateway, harness.caller("operator", "a"), seen) == ([], seen)
    assert newest_entry(harness.gateway) <= seen


def test_the_id_comes_with_the_last_event_of_an_entry() -> None:
    events = [ServerEvent(kind="commit", seq=seq, at="now") for seq in (3, 3, 5)]
    lines = encoded(events, 7).split(b"\n")
    ids = [line for line in lines if line.startswith((b"id", b"event"))]

    assert ids == [b"event: commit", b"id: 3", b"event: commit", b"id: 5", b"event: commit", b"id: 7"]
    assert encoded([], 7) == b": pulse\nid: 7\n\n"
    assert encoded(events, 7).endswith(b"\n\n")


class _Stream:
    """A client that reads one line after the other."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.last_id = ""

    def next_commit(self) -> dict[str, Any]:
        """The next commit. Other tests may have had calls refused, which are told too."""
        while (event := self.next())["kind"] != "commit":
            pass
        return event

    def next(self) -> dict[str, Any]:
        """The data of the next event."""
        while line := self._response.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "id":
                self.last_id = value
            if name == "data":
                told: dict[str, Any] = json.loads(value)
                return told
        raise EOFError

    def rest(self) -> bytes:
        """Everything up to the end of the stream."""
        return self._response.read()


@contextmanager
def _listening(served: Served, key: str, **headers: str) -> Iterator[_Stream]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port.number, timeout=60)
    try:
        connection.request("GET", "/v1/events", headers={"Authorization": f"Bearer {key}", **headers})
        response = connection.getresponse()
        assert (response.status, response.getheader("Content-Type")) == (
            200,
            "text/event-stream; charset=utf-8",
        )
        assert response.readline() == b"retry: 1000\n"
        yield _Stream(response)
    finally:
        connection.close()


def test_a_client_that_comes_back_with_its_last_id_misses_nothing(served: Served) -> None:
    with Client(served.address, key=served.key, namespace="events") as client:
        with _listening(served, served.key) as stream:
            client.remember("One is here.", subject="one", source=HANDBOOK)
            first = stream.next_commit()
            last_id = stream.last_id
        client.remember("Two is here.", subject="two", source=HANDBOOK)
        client.remember("Three is here.", subject="three", source=HANDBOOK)
        with _listening(served, served.key, **{"Last-Event-ID": last_id}) as stream:
            missed = [stream.next_commit(), stream.next_commit()]

    assert first["records"][0]["memory_id"] == "one"
    assert [one["records"][0]["memory_id"] for one in missed] == ["two", "three"]
    assert first["seq"] < missed[0]["seq"] < missed[1]["seq"]


def test_a_revoked_key_hears_no_more(served: Served) -> None:
    with Client(served.address, key=served.key, namespace="events") as client:
        created = client.keys().create("listener", role="agent", namespaces=["events"])
        with _listening(served, created.token) as stream:
            client.keys().revoke(created.key.key_id)
            rest = stream.rest()

    assert b"event:" not in rest


@pytest.mark.parametrize("given", ["x", "-1", "1e3", "9" * 17])
def test_a_wrong_id_is_refused(served: Served, given: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port.number, timeout=60)
    headers = {"Authorization": f"Bearer {served.key}", "Last-Event-ID": given}
    connection.request("GET", "/v1/events", headers=headers)
    response = connection.getresponse()
    problem = json.loads(response.read())
    connection.close()

    assert response.status == 400
    assert "Last-Event-ID" in problem["detail"]


def test_streams_end_in_order_when_the_server_stops(tmp_path: Path) -> None:
    server = Served(tmp_path, "--stop-seconds", "60")
    server.start()
    with _listening(server, server.key) as stream:
        server.process.stop()
        rest = stream.rest()

    assert rest.startswith(b"id: ")
