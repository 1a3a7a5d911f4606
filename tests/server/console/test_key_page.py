"""The page of API keys: created and shown once, limited by the creator's own key, listed, revoked."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from standfast.errors import Unauthenticated
from tests.server.console.conftest import BrowserClient, browser_client, words_of
from tests.server.console.sample_server import SampleServer, sample_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SampleServer]:
    """A server that a test may change."""
    with sample_server(tmp_path, memory_only=True) as built:
        yield built


@pytest.fixture
def client(server: SampleServer) -> Iterator[BrowserClient]:
    """An operator, signed in, on the page of keys."""
    with browser_client(server, server.operator) as signed_in:
        signed_in.get("/console/keys")
        yield signed_in


def test_a_key_is_created_with_limits_and_shown_once(server: SampleServer, client: BrowserClient) -> None:
    answer = client.post(
        "/console/keys",
        name="bot",
        role="agent",
        namespaces="default, other",
        scopes="user/ada",
        days="7",
        origin="untrusted",
    )
    token = re.findall(r"sf_[0-9a-f]{16}_[0-9a-f]{64}", answer.text)[0]
    caller = server.gateway.keyring.authenticate(token)
    listed = client.get("/console/keys")

    assert (caller.name, caller.role, caller.namespaces) == ("bot", "agent", ("default", "other"))
    assert (caller.scopes, caller.origin) == (("user/ada",), "untrusted")
    assert server.gateway.keyring.find(caller.key_id).expires_at is not None
    assert answer.headers["cache-control"] == "no-store"
    assert "bot agent, untrusted default, other only user/ada" in words_of(listed)
    assert f'title="{caller.key_id}"' in listed.text
    assert token not in listed.text


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"name": ""}, "name"),
        ({"namespaces": " , "}, "namespaces"),
        ({"role": "king"}, "role"),
        ({"days": "0"}, "days"),
        ({"days": "a week"}, "it must be a whole number"),
        ({"scopes": "a//b"}, "it must be a path"),
        ({"namespaces": "standfast"}, "reserved"),
    ],
)
def test_a_refused_key_stays_in_the_form(
    server: SampleServer, client: BrowserClient, fields: dict[str, str], part: str
) -> None:
    before = sum(1 for _ in server.gateway.keyring.all())
    wanted = {"name": "bot", "role": "agent", "namespaces": "default", "scopes": "user/x", **fields}
    answer = client.post("/console/keys", **wanted)

    assert answer.status_code == 422
    assert "No key was created" in words_of(answer)
    assert part in words_of(answer)
    assert f'value="{wanted["scopes"]}"' in answer.text
    assert sum(1 for _ in server.gateway.keyring.all()) == before


def test_nobody_gives_away_more_than_they_have(server: SampleServer) -> None:
    _, token = server.gateway.keyring.create(
        name="chief", role="operator", namespaces=["default"], scopes=["user/ada"]
    )
    with browser_client(server, token) as limited:
        page = words_of(limited.get("/console/keys"))
        wider = limited.post("/console/keys", name="x", role="agent", namespaces="*")
        other = limited.post("/console/keys", name="x", role="agent", namespaces="default", scopes="user/bob")
        own = limited.post(
            "/console/keys", name="x", role="agent", namespaces="default", scopes="user/ada/chat"
        )

    assert "chief" in page
    assert "auditor all all" not in page
    assert [answer.status_code for answer in (wider, other, own)] == [403, 403, 200]


def test_a_revoked_key_ends_at_once(server: SampleServer, client: BrowserClient) -> None:
    caller = server.gateway.keyring.authenticate(server.agent)
    answer = client.post("/console/keys", revoke=caller.key_id)
    listed = words_of(client.get(answer.headers["location"]))

    assert answer.status_code == 303
    assert "revoked" in listed
    assert caller.key_id not in words_of(client.get("/console/keys"))
    with pytest.raises(Unauthenticated):
        server.gateway.keyring.authenticate(server.agent)


def test_revoking_your_own_key_signs_you_out(server: SampleServer, client: BrowserClient) -> None:
    caller = server.gateway.keyring.authenticate(server.operator)
    answer = client.post("/console/keys", revoke=caller.key_id)

    assert answer.headers["location"] == "/console/login"
    assert client.get("/console/keys").status_code == 401


def test_an_auditor_reads_keys_and_an_agent_does_not(server: SampleServer) -> None:
    with browser_client(server, server.auditor) as auditor, browser_client(server, server.agent) as agent:
        page = words_of(auditor.get("/console/keys"))
        created = auditor.post("/console/keys", name="x", role="agent", namespaces="default")
        key_id = server.gateway.keyring.authenticate(server.agent).key_id
        revoked = auditor.post("/console/keys", revoke=key_id)
        of_agent = agent.get("/console/keys")

    assert "operator" in page
    assert "Create a key" not in page
    assert [answer.status_code for answer in (created, revoked, of_agent)] == [403, 403, 403]


def test_a_form_of_another_site_creates_no_key(server: SampleServer, client: BrowserClient) -> None:
    before = sum(1 for _ in server.gateway.keyring.all())
    client.token = "0" * 64
    answer = client.post("/console/keys", name="x", role="operator", namespaces="*")

    assert answer.status_code == 403
    assert sum(1 for _ in server.gateway.keyring.all()) == before
