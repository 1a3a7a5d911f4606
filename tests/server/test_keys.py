"""API keys: shown once, stored as a hash, limited to namespaces, expiring, revocable, recorded in the
ledger.
"""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.cli import main
from standfast.clock import ManualClock, RandomIds
from standfast.errors import Forbidden, InvalidValue, NotAuthorised, NotFound, Unauthenticated
from standfast.records.origins import Origin
from standfast.records.requests import ForgetRequest, RememberRequest
from standfast.server.access.keys import Keyring
from standfast.server.access.permissions import (
    ROLES_OF_PERMISSION,
    SCOPE_OF_PERMISSION,
    Caller,
    KeyRole,
    KeyScope,
    Permission,
    is_allowed,
    namespace_for,
    require,
)
from standfast.server.operations import governance_operations, memory_operations
from standfast.server.operations.gateway import Gateway
from standfast.server.operations.schemas import RecordQuery
from standfast.server.operations.store_schemas import (
    CreateKeyBody,
    KeysQuery,
)
from standfast.store.opening import open_store
from standfast.store.store import Store
from tests.server.harness import Harness


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return open_store(":memory:", create=True, clock=clock, ids=RandomIds())


def test_a_key_lists_its_outermost_scopes_once_and_in_order(store: Store) -> None:
    users = [f"user/{name}" for name in "hgfedcba"]
    scopes = [*users, "user/a/b", "user/c"]
    key, _ = Keyring(store).create(name="bot", role="agent", namespaces=["*"], scopes=scopes)

    assert key.scopes == tuple(reversed(users))


def test_a_key_is_read_once_until_something_is_committed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring, reads, read = Keyring(store), [], store.read
    key, token = keyring.create(name="bot", role="agent", namespaces=["*"])

    def counted(*given: Any, **options: Any) -> Any:
        reads.append(given)
        return read(*given, **options)

    monkeypatch.setattr(store, "read", counted)
    for _ in range(3):
        keyring.authenticate(token)

    assert len(reads) == 1
    keyring.revoke(key.key_id)
    with pytest.raises(Unauthenticated, match="revoked"):
        keyring.authenticate(token)


def test_a_token_authenticates_the_caller_of_its_key(store: Store) -> None:
    key, token = Keyring(store).create(name="bot", role="agent", namespaces=["b", "a", "a"])

    assert Keyring(store).authenticate(token) == Caller(
        key_id=key.key_id, name="bot", role=KeyRole.AGENT, namespaces=("a", "b")
    )


@pytest.mark.usefixtures("plain_contents")
def test_the_secret_is_nowhere_in_the_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = open_store(str(path), create=True)
    _, token = Keyring(store).create(name="bot", role="agent", namespaces=["*"])
    store.close()
    secret = token.rpartition("_")[2].encode()

    assert all(
        secret not in file.read_bytes() and bytes.fromhex(secret.decode()) not in file.read_bytes()
        for file in tmp_path.rglob("*")
        if file.is_file()
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


def test_a_session_ends_with_its_key(store: Store, clock: ManualClock) -> None:
    ring = Keyring(store)
    brief, token = ring.create(name="brief", role="agent", namespaces=["a"], lifetime=timedelta(seconds=10))
    lasting, _ = ring.create(name="lasting", role="auditor", namespaces=["*"])
    clock.advance(9)
    caller = ring.caller_of(brief.key_id)
    clock.advance(1)
    with pytest.raises(Unauthenticated, match="expired"):
        ring.caller_of(brief.key_id)
    with pytest.raises(Unauthenticated, match="unknown"):
        ring.caller_of("nobody")
    still = ring.caller_of(lasting.key_id)
    valid = [key.name for key in ring.valid()]
    ring.revoke(lasting.key_id)
    with pytest.raises(Unauthenticated, match="revoked"):
        ring.caller_of(lasting.key_id)

    assert (caller.name, caller.role, caller.namespaces) == ("brief", KeyRole.AGENT, ("a",))
    assert (still.role, still.covers_all) == (KeyRole.AUDITOR, True)
    assert valid == ["lasting"]
    assert token.startswith(f"sf_{brief.key_id}_")


def test_a_known_key_is_told_from_a_wrong_one_without_reading(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Keyring(store)
    _, token = ring.create(name="brief", role="agent", namespaces=["a"], lifetime=timedelta(seconds=10))
    unread = ring.known_caller(token)
    caller = ring.authenticate(token)
    with monkeypatch.context() as patched:
        patched.setattr(store, "head", None)
        known = ring.known_caller(token)
        others = [ring.known_caller(one) for one in (f"{token[:-1]}~", token[:-1], "", "sf_none_", "no key")]
        clock.advance(10)
        expired = ring.known_caller(token)
    lasting, token = ring.create(name="lasting", role="agent", namespaces=["a"])
    ring.authenticate(token)
    ring.revoke(lasting.key_id)
    with pytest.raises(Unauthenticated, match="revoked"):
        ring.caller_of(lasting.key_id)

    assert (unread, known) == (None, caller)
    assert (others, expired) == ([None] * 5, None)
    assert ring.known_caller(token) is None, "what was read last says that it was revoked"


def test_revoking_twice_keeps_the_first_instant(store: Store, clock: ManualClock) -> None:
    ring = Keyring(store)
    key, _ = ring.create(name="bot", role="agent", namespaces=["a"])
    first = ring.revoke(key.key_id).revoked_at
    clock.advance(5)

    assert ring.revoke(key.key_id).revoked_at == first
    assert store.head() == 2


def test_the_secret_of_one_key_does_not_fit_another(store: Store) -> None:
    ring = Keyring(store)
    first, token = ring.create(name="a", role="agent", namespaces=["a"])
    second, _ = ring.create(name="b", role="operator", namespaces=["*"])

    with pytest.raises(Unauthenticated, match="unknown"):
        ring.authenticate(token.replace(first.key_id, second.key_id))


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "king"},
        {"namespaces": "default"},
        {"lifetime": timedelta()},
        {"lifetime": timedelta(days=-1)},
        {"lifetime": timedelta.max},
        {"name": ""},
    ],
)
def test_a_key_that_makes_no_sense_is_not_created(store: Store, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        Keyring(store).create(**{"name": "bot", "role": "agent", "namespaces": ["a"]} | wrong)

    assert list(Keyring(store).all()) == []


def test_the_shown_row_has_everything_but_the_hash(store: Store) -> None:
    key, _ = Keyring(store).create(name="bot", role="agent", namespaces=["a"])

    assert set(key.as_json()) - set(key.as_shown()) == {"secret_hash"}


@pytest.mark.parametrize("permission", list(Permission))
def test_a_permission_needs_its_role_and_its_part_of_the_store(permission: Permission) -> None:
    scope = SCOPE_OF_PERMISSION[permission]
    where = "own" if scope is KeyScope.NAMESPACE else None
    for role in KeyRole:
        own = Caller(key_id="k", name="n", role=role, namespaces=("own",))
        foreign = Caller(key_id="k", name="n", role=role, namespaces=("foreign",))
        everywhere = Caller(key_id="k", name="n", role=role, namespaces=("*",))
        has_role = role in ROLES_OF_PERMISSION[permission]

        assert namespace_for(permission, "own") == where
        assert is_allowed(everywhere, permission, where) == has_role
        assert is_allowed(own, permission, where) == (has_role and scope is not KeyScope.STORE)
        assert is_allowed(foreign, permission, where) == (has_role and scope is KeyScope.ANY)


def test_a_refusal_names_the_role_the_place_and_the_reason() -> None:
    agent = Caller(key_id="k", name="n", role=KeyRole.AGENT, namespaces=("own",))
    with pytest.raises(Forbidden) as wrong_role:
        require(agent, Permission.SWEEP, "own")
    with pytest.raises(Forbidden) as wrong_scope:
        require(agent, Permission.READ_PROMPT, None)

    assert wrong_role.value.facts == {
        "role": "agent",
        "act": "sweep",
        "where": "namespace 'own'",
        "problem": "it needs a key of role operator",
    }
    assert wrong_scope.value.facts["where"] == "the whole store"
    assert wrong_scope.value.facts["problem"] == "it needs a key for all namespaces"


def test_a_key_limited_to_scopes_covers_what_is_below_any_of_them_and_nothing_beyond() -> None:
    caller = Caller(
        key_id="k", name="ada", role=KeyRole.OPERATOR, namespaces=("*",), scopes=("team/a", "user/ada")
    )

    assert [caller.covers_scope(one) for one in ("team/a", "user/ada/notes", "user/bob", "shared")] == [
        True,
        True,
        False,
        False,
    ]
    assert is_allowed(caller, Permission.RECALL, "own")
    with pytest.raises(Forbidden, match="a key that is not limited to scopes"):
        require(caller, Permission.SWEEP, "own")


@given(tampering=st.integers(0, 83), to=st.characters(exclude_categories=["Cs"]))
@settings(max_examples=100)
def test_no_changed_token_is_accepted(tampering: int, to: str) -> None:
    ring = Keyring(open_store(":memory:", create=True))
    _, token = ring.create(name="bot", role="operator", namespaces=["*"])
    changed = token[:tampering] + to + token[tampering + 1 :]
    if changed != token:
        with pytest.raises(Unauthenticated):
            ring.authenticate(changed)


@pytest.mark.parametrize(
    "token", [None, "", "sf", "sf__", "sf_nobody_", "x" * 10_000, "sf_" + "/" * 81, "\udc80"]
)
def test_a_malformed_token_is_refused(store: Store, token: str | None) -> None:
    with pytest.raises(Unauthenticated):
        Keyring(store).authenticate(token)


def test_the_ledger_records_keys_without_their_hashes(store: Store) -> None:
    ring = Keyring(store)
    key, _ = ring.create(name="bot", role="agent", namespaces=["a"])
    ring.revoke(key.key_id)
    facts = [entry.read()["body"]["told"] for entry in store.entries() if entry.read()["kind"] == "key"]

    assert [(fact["event"], fact["key_id"], fact["name"]) for fact in facts] == [
        ("created", key.key_id, "bot"),
        ("revoked", key.key_id, "bot"),
    ]
    assert "secret_hash" not in json.dumps(facts)
    assert list(store.verify()) == []


@pytest.mark.parametrize("namespaces", [[], ["standfast"], [""]])
def test_a_key_needs_a_namespace_that_is_not_reserved(store: Store, namespaces: list[str]) -> None:
    with pytest.raises(InvalidValue):
        Keyring(store).create(name="bot", role="agent", namespaces=namespaces)


def test_no_key_covers_the_reserved_namespace(store: Store) -> None:
    _, token = Keyring(store).create(name="root", role="operator", namespaces=["*"])
    caller = Keyring(store).authenticate(token)

    assert is_allowed(caller, Permission.RECALL, "anything")
    with pytest.raises(Forbidden, match="other namespaces"):
        require(caller, Permission.RECALL, "standfast")


def test_keys_are_created_listed_and_revoked_on_the_command_line(
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


@pytest.mark.parametrize("columns", ["20", "60", "80"])
def test_a_listed_id_can_be_revoked_however_narrow_the_terminal_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner(env={"COLUMNS": columns})
    names = [f"a-bot-with-a-long-name-{number}" for number in range(3)]
    for name in names:
        runner.invoke(
            main, ["keys", "create", name, "--namespace", "a-long-namespace", "--namespace", "another"]
        )
    listed = re.findall(r"[0-9a-f]{16}", runner.invoke(main, ["keys", "list"]).output)
    revoked = [runner.invoke(main, ["keys", "revoke", key_id]).exit_code for key_id in listed]

    assert len(listed) == 3
    assert revoked == [0, 0, 0]


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


def _operator(gateway: Gateway, *namespaces: str, days: int | None = None) -> Caller:
    lifetime = None if days is None else timedelta(days=days)
    key, _ = gateway.keyring.create(name="ops", role="operator", namespaces=namespaces, lifetime=lifetime)
    return key.caller


def test_a_key_manages_only_keys_for_namespaces_that_it_covers(harness: Harness) -> None:
    gateway = harness.gateway
    north, everywhere = _operator(gateway, "north"), _operator(gateway, "*")
    own = governance_operations.create_key(gateway, north, CreateKeyBody(name="bot", namespaces=("north",)))
    foreign = governance_operations.create_key(
        gateway, everywhere, CreateKeyBody(name="bot", namespaces=("north", "south"))
    )
    for namespaces in (("south",), ("north", "south"), ("*",)):
        with pytest.raises(Forbidden, match="does not cover"):
            governance_operations.create_key(gateway, north, CreateKeyBody(name="bot", namespaces=namespaces))
    with pytest.raises(NotFound):
        governance_operations.revoke_key(gateway, north, foreign.key.key_id)
    with pytest.raises(NotFound):
        governance_operations.revoke_key(gateway, north, everywhere.key_id)
    seen = {key.key_id for key in governance_operations.list_keys(gateway, north, KeysQuery()).keys}
    all_of_it = {key.key_id for key in governance_operations.list_keys(gateway, everywhere, KeysQuery()).keys}
    revoked = governance_operations.revoke_key(gateway, north, own.key.key_id)

    assert seen == {north.key_id, own.key.key_id}
    assert all_of_it == {north.key_id, everywhere.key_id, own.key.key_id, foreign.key.key_id}
    assert revoked.revoked_at is not None
    assert {key.key_id for key in governance_operations.list_keys(gateway, north, KeysQuery()).keys} == {
        north.key_id
    }


def test_a_key_creates_none_that_outlives_it(harness: Harness) -> None:
    """A key that was stolen for a day must not become one for ever."""
    gateway = harness.gateway
    brief = _operator(gateway, "*", days=10)
    for days in (None, 11):
        with pytest.raises(Forbidden, match="fewer days"):
            governance_operations.create_key(
                gateway, brief, CreateKeyBody(name="x", namespaces=("a",), days=days)
            )

    assert governance_operations.create_key(
        gateway, brief, CreateKeyBody(name="x", namespaces=("a",), days=9)
    ).token


def test_the_ledger_says_which_key_created_and_revoked_a_key(harness: Harness) -> None:
    gateway = harness.gateway
    operator = _operator(gateway, "*")
    made = governance_operations.create_key(gateway, operator, CreateKeyBody(name="bot", namespaces=("a",)))
    governance_operations.revoke_key(gateway, operator, made.key.key_id)
    entries = [entry.read() for entry in gateway.store.entries()]
    told = [entry["body"]["told"] for entry in entries if entry["kind"] == "key"]

    assert [(fact["event"], fact["by"]) for fact in told] == [
        ("created", None),
        ("created", operator.key_id),
        ("revoked", operator.key_id),
    ]


def test_a_page_of_keys_leads_to_the_next(harness: Harness) -> None:
    operator = _operator(harness.gateway, "*")
    made = {operator.key_id} | {_operator(harness.gateway, "a").key_id for _ in range(4)}
    seen: list[str] = []
    query = KeysQuery(limit=2)
    while True:
        page = governance_operations.list_keys(harness.gateway, operator, query)
        seen += [key.key_id for key in page.keys]
        if page.next is None:
            break
        query = KeysQuery(limit=2, cursor=page.next)

    assert seen == sorted(made)


@pytest.mark.parametrize(
    ("role", "given", "kind", "origin"),
    [
        ("operator", None, "user", Origin.TRUSTED),
        ("agent", None, "user", Origin.ORDINARY),
        ("agent", None, "web", Origin.UNTRUSTED),
        ("agent", "trusted", "user", Origin.TRUSTED),
        ("agent", "untrusted", "user", Origin.UNTRUSTED),
    ],
)
def test_a_record_has_the_lower_origin_of_its_source_and_the_key(
    harness: Harness, role: str, given: str | None, kind: str, origin: Origin
) -> None:
    key, _ = harness.gateway.keyring.create(name="bot", role=role, namespaces=["*"], origin=given)
    body = RememberRequest(text="Ada lives in Rome.", source={"kind": kind, "id": "ada"})
    answer = memory_operations.remember(harness.gateway, key.caller, "default", body)
    query = RecordQuery(memory_id=answer.memory_id)
    page = memory_operations.get_record(harness.gateway, key.caller, "default", query)

    assert {record.origin for record in page.records} == {origin}


def test_no_key_makes_one_that_is_trusted_more(harness: Harness) -> None:
    create = harness.gateway.keyring.create
    key, _ = create(name="low", role="operator", namespaces=["*"], origin="ordinary")
    agent = CreateKeyBody(name="bot", namespaces=("*",))

    assert governance_operations.create_key(harness.gateway, key.caller, agent).key.origin is None
    for body in (
        CreateKeyBody(name="op", namespaces=("*",), role=KeyRole.OPERATOR),
        CreateKeyBody(name="bot", namespaces=("*",), origin=Origin.TRUSTED),
    ):
        with pytest.raises(Forbidden, match="your key is ordinary"):
            governance_operations.create_key(harness.gateway, key.caller, body)


@pytest.mark.parametrize("named", [{"subject": "home"}, {"scope": "user/ada"}])
def test_an_untrusted_key_forgets_nothing_that_others_said(harness: Harness, named: dict[str, str]) -> None:
    gateway = harness.gateway
    bot, _ = gateway.keyring.create(name="bot", role="agent", namespaces=["*"])
    scraper, _ = gateway.keyring.create(name="scraper", role="agent", namespaces=["*"], origin="untrusted")
    said = RememberRequest(text="Ada lives in Rome.", subject="home", scope="user/ada")
    memory_operations.remember(gateway, bot.caller, "default", said)
    asked = ForgetRequest.of(named.get("subject"), scope="user/ada", reason="mine")
    with pytest.raises(NotAuthorised):
        memory_operations.forget(gateway, scraper.caller, "default", asked)

    assert memory_operations.forget(gateway, bot.caller, "default", asked).records == 1
