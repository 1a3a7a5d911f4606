"""API keys: shown once, kept as a hash, scoped, expiring, revocable, and told to the ledger."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.cli import main
from standfast.clock import ManualClock, RandomIds
from standfast.errors import Forbidden, InvalidValue, NotFound, Unauthenticated
from standfast.server.access.keys import Keyring
from standfast.server.access.permissions import Caller, KeyRole, Permission, is_allowed, require
from standfast.store.store import Store, open_store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return open_store(":memory:", create=True, clock=clock, ids=RandomIds())


def test_a_token_lets_its_holder_in_as_what_the_key_says(store: Store) -> None:
    key, token = Keyring(store).create(name="bot", role="agent", namespaces=["b", "a", "a"])

    assert Keyring(store).authenticate(token) == Caller(
        key_id=key.key_id, name="bot", role=KeyRole.AGENT, namespaces=("a", "b")
    )


def test_the_secret_is_nowhere_in_the_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = open_store(str(path), create=True)
    _, token = Keyring(store).create(name="bot", role="agent", namespaces=["*"])
    store.close()
    secret = token.rpartition("_")[2].encode()

    assert all(
        secret not in file.read_bytes() and bytes.fromhex(secret.decode()) not in file.read_bytes()
        for file in tmp_path.iterdir()
    )


def test_a_key_ends_when_it_expires_or_is_revoked(store: Store, clock: ManualClock) -> None:
    ring = Keyring(store)
    _, brief = ring.create(name="brief", role="agent", namespaces=["a"], lifetime=timedelta(days=1))
    lasting, token = ring.create(name="lasting", role="agent", namespaces=["a"])
    clock.advance(86_399)
    ring.authenticate(brief)
    clock.advance(1)
    with pytest.raises(Unauthenticated, match="expired"):
        ring.authenticate(brief)
    ring.authenticate(token)
    revoked = ring.revoke(lasting.key_id)
    with pytest.raises(Unauthenticated, match="revoked"):
        ring.authenticate(token)

    assert ring.revoke(lasting.key_id) == revoked
    assert list(ring.valid()) == []
    assert len(list(ring.all())) == 2
    with pytest.raises(NotFound):
        ring.revoke("nobody")


@given(tampering=st.integers(0, 83), to=st.characters(exclude_categories=["Cs"]))
@settings(max_examples=100)
def test_no_changed_token_opens_anything(tampering: int, to: str) -> None:
    ring = Keyring(open_store(":memory:", create=True))
    _, token = ring.create(name="bot", role="operator", namespaces=["*"])
    changed = token[:tampering] + to + token[tampering + 1 :]
    if changed != token:
        with pytest.raises(Unauthenticated):
            ring.authenticate(changed)


@pytest.mark.parametrize(
    "token", [None, "", "sf", "sf__", "sf_nobody_", "x" * 10_000, "sf_" + "/" * 81, "\udc80"]
)
def test_what_is_no_token_is_refused(store: Store, token: str | None) -> None:
    with pytest.raises(Unauthenticated):
        Keyring(store).authenticate(token)


def test_the_ledger_tells_of_keys_without_their_hashes(store: Store) -> None:
    ring = Keyring(store)
    key, _ = ring.create(name="bot", role="agent", namespaces=["a"])
    ring.revoke(key.key_id)
    told = [entry.read()["body"]["told"] for entry in store.entries() if entry.read()["kind"] == "key"]

    assert [(fact["event"], fact["key_id"], fact["name"]) for fact in told] == [
        ("created", key.key_id, "bot"),
        ("revoked", key.key_id, "bot"),
    ]
    assert "secret_hash" not in json.dumps(told)
    assert list(store.verify()) == []


@pytest.mark.parametrize("namespaces", [[], ["standfast"], [""]])
def test_a_key_is_for_somebodys_namespaces(store: Store, namespaces: list[str]) -> None:
    with pytest.raises(InvalidValue):
        Keyring(store).create(name="bot", role="agent", namespaces=namespaces)


def test_no_key_reaches_standfasts_own_namespace(store: Store) -> None:
    _, token = Keyring(store).create(name="root", role="operator", namespaces=["*"])
    caller = Keyring(store).authenticate(token)

    assert is_allowed(caller, Permission.RECALL, "anything")
    with pytest.raises(Forbidden, match="other namespaces"):
        require(caller, Permission.RECALL, "standfast")


def test_keys_are_made_listed_and_revoked_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = json.loads(CliRunner().invoke(main, ["keys", "create", "bot", "--days", "9", "--json"]).output)
    assert made["token"].startswith(f"sf_{made['key']['key_id']}_")
    assert made["key"]["namespaces"] == ["default"]
    assert "bot" in CliRunner().invoke(main, ["keys", "list"]).output
    assert "revoked" in CliRunner().invoke(main, ["keys", "revoke", made["key"]["key_id"]]).output
    assert "There is no key" in CliRunner().invoke(main, ["keys", "list"]).output
    assert json.loads(CliRunner().invoke(main, ["keys", "list", "--all", "--json"]).output)["keys"]
    assert CliRunner().invoke(main, ["keys", "revoke", "nobody"]).exit_code == 2


def test_the_command_line_shows_how_long_a_key_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner(env={"COLUMNS": "160"})
    forever = runner.invoke(main, ["keys", "create", "ann", "--role", "auditor", "--namespace", "*"])
    limited = runner.invoke(main, ["keys", "create", "bot", "--days", "9"])
    listed = runner.invoke(main, ["keys", "list"]).output
    until = json.loads(runner.invoke(main, ["keys", "list", "--json"]).output)["keys"]

    assert "ann: auditor, all namespaces, until it is revoked." in forever.stderr
    assert "bot: agent, namespace default, until 20" in limited.stderr
    assert "valid" in listed
    assert "until 20" in listed
    assert sorted(key["expires_at"] is None for key in until) == [False, True]
