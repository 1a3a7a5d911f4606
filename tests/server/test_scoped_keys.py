"""Keys limited to scopes: no call of one scope shows a byte of another, through any route, tool or page, and
none writes there.

Everything that can be stored is stored for three users, with a word of the user's own in it. Then every
route, tool and page is called with a key that is limited to Ada's scope, also with what an attacker would
name, and the answers are searched for the others' words.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import anyio
import msgspec
import pytest
from mcp.client.client import Client as McpClient
from starlette.testclient import TestClient

from standfast.clock import ManualClock
from standfast.errors import Forbidden, InvalidValue
from standfast.govern.approvals.queue import WaitingProposal
from standfast.records.requests import AddRequest, ForgetRequest, RememberRequest
from standfast.records.scopes import scope_in
from standfast.records.vocabulary import Band
from standfast.server.access.permissions import Caller, KeyRole, Permission
from standfast.server.app import build_app
from standfast.server.console.routes import PAGES, console_routes
from standfast.server.edge.event_streams import encoded
from standfast.server.http.endpoints import ENDPOINTS, Endpoint
from standfast.server.mcp.server import ToolSet, build_server
from standfast.server.operations import governance_operations, memory_operations
from standfast.server.operations.event_operations import events_after
from standfast.server.operations.schemas import RecordsQuery, RememberBatchBody
from standfast.server.operations.store_schemas import CreateKeyBody
from standfast.settings import Settings
from tests.govern.openssh import private_key
from tests.memory.conftest import SECRET, days, decision
from tests.server.artifacts import TEMPLATE
from tests.server.console.conftest import BrowserClient
from tests.server.harness import Harness, make_gateway
from tests.server.test_permissions import ARGUMENTS, BODIES, QUERIES, ROLES_OF_TOOL

WORDS = {"ada": "quaggaada", "bob": "okapibob", "shared": "lemmingshared"}
SCOPES = {"ada": "user/ada", "bob": "user/bobzorro", "shared": "shared"}
# What every user has under the same name, so that an attacker can guess it.
SUBJECT, SESSION, SOURCE = "preference/language", "monday", {"kind": "doc", "id": "form"}
NAMED = (None, "*", "user", SCOPES["ada"], SCOPES["bob"], "shared")
# These change what others have, if they are not refused; they have a test of their own.
UNTRIED = {
    *("decide", "revoke_key", "discard_run", "commit_run"),
    *("sweep", "lift_refusal", "put_prompt", "roll_back_prompt"),
}


@dataclass
class Planted:
    """The server, and what an attacker might have learnt: ids of proposals, runs and ledger entries."""

    harness: Harness
    clock: ManualClock
    proposals: list[str]
    runs: list[str]

    def key(self, role: str, *scopes: str) -> tuple[Caller, str]:
        """A new key for the namespace, limited to these scopes."""
        keyring = self.harness.gateway.keyring
        key, token = keyring.create(name=f"{role}-key", role=role, namespaces=["own"], scopes=scopes)
        return key.caller, token


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    clock = ManualClock()
    gateway = make_gateway(tmp_path_factory.mktemp("scoped") / "store.db", clock=clock, has_traces=True)
    private_key("alice")
    found = Planted(Harness(gateway), clock, [], [])
    for name in ("bob", "shared", "ada"):
        _plant(found, name)
    days(clock, 100)
    for name in ("shared", "bob", "ada"):
        _say(found, name, "later")
    yield found
    gateway.close()


def _say(planted: Planted, name: str, when: str) -> None:
    gateway, word = planted.harness.gateway, WORDS[name]
    operator = planted.harness.caller("operator")
    body = RememberRequest(
        text=f"In {when} times {word} is written to in language {when}{word}.",
        subject=SUBJECT,
        source=SOURCE,
        tags=(f"tag-{word}",),
        metadata={"note": word},
        scope=SCOPES[name],
    )
    memory_operations.remember(gateway, operator, "own", body)


def _plant(planted: Planted, name: str) -> None:
    gateway, word, scope = planted.harness.gateway, WORDS[name], SCOPES[name]
    memory = gateway.authorize(planted.harness.caller("operator"), Permission.REMEMBER, "own")
    _say(planted, name, "early")
    memory.remember(f"The parrot of {word} is green.", scope=scope, run_id=f"run-{word}")
    memory.remember(f"{word}: {SECRET}", scope=scope, source=SOURCE)
    memory.remember(f"A friend of {word} may be called Eve.", subject=f"friend/{word}", scope=scope)
    memory.forget(f"friend/{word}", scope=scope, reason=f"asked for by {word}")
    for text in (f"Refunds of {word} take 14 days.", f"Parcels of {word} go by ship."):
        made = memory.remember(text, scope=scope, source=SOURCE, propose=True)
        planted.proposals.append(made.proposal_id or "")
    waiting = memory.approvals.find(planted.proposals[-1])
    assert isinstance(waiting, WaitingProposal)
    memory.approvals.decide(
        decision(memory, waiting, nonce=f"{len(planted.proposals):032}"),
        signers=gateway.signers(),
    )
    memory.add([{"role": "user", "content": f"I am {word}."}], scope=scope, session=SESSION)
    memory.add([{"role": "user", "content": f"Again {word}."}], scope=scope, session=f"talk of {word}")
    _, token = gateway.keyring.create(name=f"key-of-{word}", role="agent", namespaces=["own"], scopes=[scope])
    with TestClient(build_app(gateway)) as http:
        headers = {"Authorization": f"Bearer {token}"}
        opened = http.post("/v1/namespaces/own/runs", json=BODIES["open_run"], headers=headers).json()
        planted.runs.append(opened["run_id"])
        path = f"/v1/namespaces/own/runs/{opened['run_id']}/remember"
        assert http.post(path, json={"text": f"{word} waits."}, headers=headers).status_code == 200
    anyio.run(_draw, gateway, gateway.keyring.authenticate(token), word)


async def _draw(gateway: Any, caller: Caller, word: str) -> None:
    async with McpClient(build_server(gateway, lambda _: caller, ToolSet.ALL)) as client:
        entity = {"name": "Eve", "entityType": f"friend of {word}", "observations": [f"Eve met {word} once."]}
        assert not (await client.call_tool("create_entities", {"entities": [entity]})).is_error
        relation = {"from": "Eve", "to": word, "relationType": "knows"}
        assert not (await client.call_tool("create_relations", {"relations": [relation]})).is_error


def _foreign(answer: str, *sent: str | None) -> list[str]:
    """The words of others in an answer. A scope that the caller named itself may be repeated to it."""
    words = [WORDS["bob"], WORDS["shared"], SECRET[18:38]]
    if SCOPES["bob"] not in sent:
        words.append(SCOPES["bob"].partition("/")[2])
    return [word for word in words if word in answer]


def _queries(endpoint: Endpoint) -> Iterator[dict[str, str]]:
    """The queries to try on a reading route: every scope that can be named, and old snapshots."""
    fields = {one.name for one in msgspec.structs.fields(endpoint.request)}
    own = dict(part.split("=") for part in QUERIES.get(endpoint.name, "").split("&") if part)
    own = {**own, **{name: text for name, text in _NAMES.items() if name in fields}}
    more: dict[str, str] = {"limit": "200"} if "limit" in fields else {}
    for scope in NAMED if "scope" in fields else (None,):
        yield {**own, **more, **({} if scope is None else {"scope": scope})}
    if "at" in fields:
        yield {**own, "at": "7", "scope": "*" if endpoint.name == "list_records" else SCOPES["ada"]}
    if "decided" in fields:
        yield {**own, "decided": "true"}


_NAMES = {"memory_id": SUBJECT, "subject": SUBJECT, "session": SESSION, "old": "0", "all": "true"}


def _bodies(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    """The bodies to try on a writing route."""
    body = BODIES[endpoint.name.removesuffix("_in_run")]
    if "items" in body:
        yield from ({"items": [{**body["items"][0], "scope": one}]} for one in NAMED if one)
    fields = {one.name for one in msgspec.structs.fields(endpoint.request)}
    yield body
    if "scope" in fields:
        yield from ({**body, "scope": one} for one in NAMED if one)
    if "scopes" in fields and "query" in fields:
        asked = {**body, "query": "green parrot, language"}
        yield {**asked, "scopes": [SCOPES["ada"], SCOPES["bob"]], "explain": True}
        yield {**asked, "scope": SCOPES["ada"], "explain": True}
        yield {**asked, "controller": "phase6-v1"}
    if "source" in fields and "reason" in fields:
        yield {"source": SOURCE, "reason": "curious", "rehearse": True}
        yield {"subject": SUBJECT, "reason": "curious", "scope": SCOPES["bob"]}
    if "scopes" in fields and "role" in fields:
        yield {**body, "scopes": [SCOPES["bob"]]}


def _paths(endpoint: Endpoint, planted: Planted, own_run: str) -> Iterator[str]:
    runs = [own_run, *planted.runs] if "{run_id}" in endpoint.path else [""]
    proposals = planted.proposals if "{proposal_id}" in endpoint.path else [""]
    seqs = range(1, 120, 17) if "{seq}" in endpoint.path else [0]
    keys = (
        [key.key_id for key in planted.harness.gateway.keyring.all()] if "{key_id}" in endpoint.path else [""]
    )
    for run in runs:
        for proposal in proposals:
            for seq in seqs:
                for key in keys:
                    yield endpoint.path.format(
                        namespace="own",
                        run_id=run,
                        proposal_id=proposal,
                        seq=seq,
                        key_id=key,
                        ns="agent",
                        prompt_key="x",
                    )


def _answers(planted: Planted, token: str) -> Iterator[tuple[str, str | None, str]]:
    """What every route answers: its name, the scope that was named, and the answer."""
    headers = {"Authorization": f"Bearer {token}", "If-Match": '"1"'}
    with TestClient(build_app(planted.harness.gateway)) as http:
        opened = http.post("/v1/namespaces/own/runs", json=BODIES["open_run"], headers=headers).json()
        for one in ENDPOINTS:
            if one.name in UNTRIED:
                continue
            for path in _paths(one, planted, opened.get("run_id", "none")):
                for query in _queries(one) if one.method == "GET" else [{}]:
                    for body in _bodies(one) if one.has_body else [None]:
                        address = f"{path}?{urlencode(query)}"
                        answer = http.request(one.method, address, json=body, headers=headers)
                        assert answer.status_code < 500, (one.name, answer.text)
                        sent = json.dumps([query, body])
                        scope = SCOPES["bob"] if SCOPES["bob"] in sent else None
                        told = answer.text + str(dict(answer.headers))
                        yield one.name, scope, told


@pytest.mark.parametrize(
    "role", [KeyRole.OPERATOR, *(pytest.param(one, marks=pytest.mark.slow) for one in ("agent", "auditor"))]
)
def test_no_route_shows_a_byte_of_another_scope(planted: Planted, role: str) -> None:
    shown: dict[str, list[str]] = {}
    own: set[str] = set()
    _, token = planted.key(role, SCOPES["ada"])
    for name, scope, answer in _answers(planted, token):
        if found := _foreign(answer, scope):
            shown.setdefault(name, []).extend(found)
        if WORDS["ada"] in answer:
            own.add(name)

    assert shown == {}
    assert own >= {"recall", "list_records", "get_record", "history", "diff", "session", "sessions"}


def _changes(endpoint: Endpoint, planted: Planted) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Path and body of every call by which a route that changes something would change what others have."""
    gateway = planted.harness.gateway
    memory = gateway.authorize(planted.harness.caller("operator"), Permission.REMEMBER, "own")
    fields = {"namespace": "own", "ns": TEMPLATE.ns, "prompt_key": TEMPLATE.key}
    body = BODIES.get(endpoint.name)
    match endpoint.name:
        case "decide":
            for waiting in memory.approvals.waiting():
                if scope_in(waiting.proposal.key) != SCOPES["ada"]:
                    approval = decision(memory, waiting, nonce="f" * 32)
                    signed = {"statement": approval.statement.as_json(), "signature": approval.signature}
                    yield endpoint.path.format(proposal_id=waiting.proposal.proposal_id, **fields), signed
        case "discard_run" | "commit_run":
            for run_id in planted.runs[:2]:
                yield endpoint.path.format(run_id=run_id, **fields), body
        case "revoke_key":
            for key in gateway.keyring.all():
                if key.scopes != (SCOPES["ada"],):
                    yield endpoint.path.format(key_id=key.key_id, **fields), body
        case _:
            yield endpoint.path.format(**fields), body


def test_no_route_that_changes_something_reaches_another_scope(planted: Planted) -> None:
    gateway, tried = planted.harness.gateway, set()
    _, token = planted.key("operator", SCOPES["ada"])
    headers = {"Authorization": f"Bearer {token}", "If-Match": '"0"'}

    def state() -> object:
        memory = gateway.authorize(planted.harness.caller("operator"), Permission.REMEMBER, "own")
        waiting = memory.approvals.waiting()
        keys = [(key.key_id, key.revoked_at) for key in gateway.keyring.all()]
        return gateway.store.head(), [one.proposal.proposal_id for one in waiting], keys

    before = state()
    with TestClient(build_app(gateway)) as http:
        for endpoint in ENDPOINTS:
            if endpoint.name not in UNTRIED:
                continue
            for path, body in _changes(endpoint, planted):
                answer = http.request(endpoint.method, path, json=body, headers=headers)
                tried.add(endpoint.name)
                assert answer.status_code in (403, 404), (endpoint.name, answer.text)
                assert _foreign(answer.text + str(dict(answer.headers))) == [], endpoint.name

    assert tried == UNTRIED
    assert state() == before


@pytest.mark.slow
def test_the_search_finds_what_a_key_without_limits_is_shown(planted: Planted) -> None:
    _, unlimited = planted.key("operator")
    of_bob = {name for name, _, answer in _answers(planted, unlimited) if _foreign(answer)}

    assert of_bob >= {"recall", "list_records", "get_record", "history", "diff", "session", "sessions", "due"}
    assert of_bob >= {"list_proposals", "get_proposal", "list_keys"}


async def _tool_answers(planted: Planted, caller: Caller) -> list[tuple[str, str, str]]:
    answers = []
    async with McpClient(build_server(planted.harness.gateway, lambda _: caller, ToolSet.ALL)) as client:
        for tool in (await client.list_tools()).tools:
            for arguments in _arguments(tool.name, set(tool.input_schema["properties"])):
                answer = await client.call_tool(tool.name, arguments)
                answers.append((tool.name, json.dumps(arguments), str(answer)))
        for address in (f"records/{SUBJECT}", "snapshots/newest", "snapshots/7"):
            try:
                found = str(await client.read_resource(f"standfast://own/{address}"))
            except Exception as error:  # noqa: BLE001  # The SDK's own; what it says is searched too.
                found = str(error)
            answers.append((address, "", found))
    return answers


def _arguments(tool: str, known: set[str]) -> Iterator[dict[str, Any]]:
    """The arguments to try on a tool: as they are meant, with every scope, and with the ids of others."""
    own = {**ARGUMENTS.get(tool, {}), **{name: text for name, text in _NAMES.items() if name in known}}
    own |= {"query": "green parrot, language"} if "query" in known else {}
    own |= {"subject": "parrot"} if "text" in known and "subject" in known else {}
    own |= {"names": ["Eve"]} if "names" in known else {}
    own |= (
        {"memory_id": f"{SCOPES['bob']}//{SUBJECT}"}
        if tool in ("get_memory", "update_memory", "delete_memory")
        else {}
    )
    own |= {"rehearse": True} if "rehearse" in known else {}
    yield own
    yield from ({**own, "scope": one} for one in NAMED if one and "scope" in known)
    yield from ({**own, "scopes": [one]} for one in NAMED if one and "scopes" in known)
    if "user_id" in known:
        yield {**own, "user_id": SCOPES["bob"].partition("/")[2]}
    if "user_id" in known and tool != "delete_all_memories":
        yield {**own, "user_id": "ada"}
    if "agent_id" in known and "user_id" in known:
        yield {**{name: one for name, one in own.items() if name != "user_id"}, "agent_id": "desk"}


@pytest.mark.parametrize("role", ["operator", pytest.param("agent", marks=pytest.mark.slow)])
def test_no_tool_shows_a_byte_of_another_scope(planted: Planted, role: str) -> None:
    caller, _ = planted.key(role, SCOPES["ada"])
    before = _records_of_others(planted)
    answers = anyio.run(_tool_answers, planted, caller)
    word = SCOPES["bob"].partition("/")[2]
    shown = [
        (name, arguments, answer)
        for name, arguments, answer in answers
        if _foreign(answer, SCOPES["bob"] if word in arguments else None)
    ]

    assert {name for name, _, _ in answers} >= set(ROLES_OF_TOOL)
    assert shown == []
    assert {name for name, _, answer in answers if WORDS["ada"] in answer} >= {
        *("memory_read", "memory_history", "memory_session", "memory_sessions"),
        *(
            "search_memories",
            "get_memories",
            "read_graph",
            "open_nodes",
            f"records/{SUBJECT}",
            "snapshots/newest",
        ),
    }
    assert _records_of_others(planted) == before


def _records_of_others(planted: Planted) -> list[str]:
    """All that the two others have, in every band."""
    gateway = planted.harness.gateway
    rows = gateway.store.scan("own")
    return [
        row.key
        for row in rows
        if any(word in row.key + str(row.content) for word in (WORDS["bob"], WORDS["shared"]))
    ]


def test_no_page_of_the_console_shows_a_byte_of_another_scope(planted: Planted) -> None:
    parts = [console_routes(Settings(), behind_tls=False)]
    shown, own = [], set()
    for role in ("operator", "auditor"):
        _, token = planted.key(role, SCOPES["ada"])
        app = build_app(planted.harness.gateway, parts=parts)
        with TestClient(app, base_url="http://testserver", follow_redirects=False) as http:
            browser = BrowserClient(http)
            browser.sign_in(token)
            for page in PAGES:
                for query in _page_queries(planted, page.path):
                    address = f"/console/{page.path}?{urlencode({'in': 'own', **query})}"
                    answer = browser.get(address)
                    assert answer.status_code < 500, address
                    if _foreign(answer.text, query.get("scope") or query.get("scopes")):
                        shown.append(address)
                    if WORDS["ada"] in answer.text:
                        own.add(page.path)

    assert shown == []
    assert own >= {
        "activity",
        "playground",
        "known",
        "search",
        "scope",
        "export",
        "write",
        "record",
        "changes",
        "approvals",
        "proposal",
    }


def _page_queries(planted: Planted, path: str) -> Iterator[dict[str, str]]:
    match path:
        case "":
            yield from ({"period": one} for one in ("day", "week", "month"))
        case "playground":
            yield from ({"q": "green parrot", "scopes": one} for one in ("", "*", "user", SCOPES["bob"]))
            yield {"q": "green parrot", "day": "2030-01-01"}
        case "investigate":
            yield from ({"id": SUBJECT, "scope": one} for one in (SCOPES["ada"], SCOPES["bob"]))
            yield from ({"source": f"{SOURCE['kind']}:{SOURCE['id']}", "rehearse": one} for one in ("", "1"))
        case "known" | "conflicts":
            yield from ({"scope": one} for one in ("", "*", "user", SCOPES["bob"]))
            yield {"day": "2030-01-01"}
        case "scopes":
            yield from ({}, {"all": "1"}, {"start": "user/", "all": "1"}, {"start": "ada"}, {"start": "bob"})
        case "scope" | "export" | "write" | "forget":
            yield from ({"scope": one} for one in ("user", SCOPES["ada"], SCOPES["bob"]))
            yield from ({"id": SUBJECT, "scope": one} for one in (SCOPES["ada"], SCOPES["bob"]))
        case "search":
            yield from ({"q": one} for one in ("parrot", "refunds", ""))
            yield from ({"band": band.value} for band in (Band.VOID, Band.LEDGER))
            yield from ({"scope": one} for one in ("*", "user", SCOPES["ada"], SCOPES["bob"]))
        case "record":
            yield from ({"id": SUBJECT, **({"scope": one} if one else {})} for one in NAMED)
        case "changes":
            yield from ({"at": f"{at}"} for at in range(0, planted.harness.gateway.store.head(), 4))
            yield from ({"since": "2020-01-01", "scope": one} for one in ("", "user", SCOPES["bob"]))
        case "approvals":
            yield from ({"decided": one} for one in ("", "1"))
        case "proposal":
            yield from ({"id": one} for one in planted.proposals)
        case "sign":
            yield {f"p-{one}": "1" for one in planted.proposals}
            yield {f"p-{planted.proposals[-2]}": "1"}
        case "entry" | "receipt":
            yield from ({"seq": f"{seq}"} for seq in range(1, 60, 9))
        case _:
            yield {}


def test_events_are_only_of_the_keys_scopes(planted: Planted) -> None:
    gateway = planted.harness.gateway
    told = {}
    for role in KeyRole:
        limited, _ = planted.key(role, SCOPES["ada"])
        unlimited, _ = planted.key(role)
        for name, caller in (("limited", limited), ("unlimited", unlimited)):
            after, seen, text = -1, 0, b""
            while after != seen:
                after = seen
                events, seen = events_after(gateway, caller, after)
                text += encoded(events, seen)
            told[role, name] = text.decode()

    for role in KeyRole:
        assert _foreign(told[role, "limited"]) == []
        assert WORDS["ada"] in told[role, "limited"]
        assert "event: proposal" in told[role, "limited"]
        assert _foreign(told[role, "unlimited"]) != []


def test_receipts_are_only_of_commits_in_the_keys_scopes(planted: Planted) -> None:
    gateway = planted.harness.gateway
    limited, _ = planted.key("agent", SCOPES["ada"])
    unlimited, _ = planted.key("agent")

    def told(caller: Caller) -> str:
        text = ""
        for entry in gateway.store.entries():
            with suppress(Forbidden):
                text += str(governance_operations.receipt(gateway, caller, entry.seq).as_json())
        return text

    assert _foreign(told(limited)) == []
    assert WORDS["ada"] in told(limited)
    assert WORDS["bob"] in told(unlimited)


def test_writing_and_forgetting_outside_of_the_keys_scopes_is_refused_in_plain_words(
    planted: Planted,
) -> None:
    gateway = planted.harness.gateway
    caller, token = planted.key("operator", SCOPES["ada"], "project/x")
    place = gateway, caller, "own"
    before = _records_of_others(planted)
    calls: list[Callable[[], object]] = [
        lambda: memory_operations.remember(*place, RememberRequest(text="Mine.", scope=SCOPES["bob"])),
        lambda: memory_operations.remember(*place, RememberRequest(text="Mine.")),
        lambda: memory_operations.remember(*place, RememberRequest(text="Mine.", scope="user")),
        lambda: memory_operations.remember_batch(
            *place,
            RememberBatchBody(
                items=(
                    RememberRequest(text="Own one.", scope="project/x"),
                    RememberRequest(text="Other.", scope="shared"),
                )
            ),
        ),
        lambda: memory_operations.add(*place, AddRequest(messages=({"role": "user", "content": "Hi"},))),
        lambda: memory_operations.forget(*place, ForgetRequest(scope=SCOPES["bob"], reason="x")),
        lambda: memory_operations.forget(*place, ForgetRequest(source=SOURCE, reason="x")),
        lambda: memory_operations.forget(*place, ForgetRequest(subject=SUBJECT, reason="x", scope="shared")),
    ]
    for call in calls:
        with pytest.raises(Forbidden, match=r"the key is for project/x, user/ada; name one of these scopes"):
            call()
    with pytest.raises(InvalidValue):
        memory_operations.forget(*place, ForgetRequest(reason="x"))
    with TestClient(build_app(gateway)) as http:
        headers = {"Authorization": f"Bearer {token}"}
        runs = "/v1/namespaces/own/runs"
        refused = http.post(runs, json={**BODIES["open_run"], "scope": SCOPES["bob"]}, headers=headers)
        run = http.post(runs, json={**BODIES["open_run"], "scope": "project/x"}, headers=headers).json()[
            "run_id"
        ]
        for verb in ("remember", "forget", "recall"):
            body = {**BODIES[verb], "scope": SCOPES["bob"]}
            assert http.post(f"{runs}/{run}/{verb}", json=body, headers=headers).status_code == 403
        assert http.post("/v1/namespaces/own/retention/sweep", headers=headers).status_code == 403
        lift = {"refusal": "web:e.example", "reason": "a test"}
        assert http.post("/v1/namespaces/own/refusals/lift", json=lift, headers=headers).status_code == 403
        assert http.get("/v1/ledger", headers=headers).status_code == 403

    assert refused.status_code == 403
    assert re.search("the key is for project/x, user/ada", refused.text)
    assert _records_of_others(planted) == before
    assert list(gateway.store.scan("own", prefix="LEDGER/project/")) == []


def test_a_key_with_one_scope_works_there_without_naming_it(planted: Planted) -> None:
    gateway = planted.harness.gateway
    caller, _ = planted.key("agent", "team/eve")
    place = gateway, caller, "own"
    made = memory_operations.remember(*place, RememberRequest(text="Eve sails.", subject="hobby"))
    memory_operations.remember(*place, RememberRequest(text="Eve rows.", scope="team/eve/summer"))
    listed = memory_operations.list_records(*place, RecordsQuery(scope="*", band=Band.LEDGER))
    page = memory_operations.list_records(*place, RecordsQuery(limit=1, band=Band.LEDGER))
    query = RecordsQuery(cursor=page.next, band=Band.LEDGER)

    assert [one.scope for one in listed.records] == ["team/eve", "team/eve/summer"]
    assert memory_operations.list_records(*place, query).records == listed.records[1:]
    assert gateway.store.read("own", [f"LEDGER/team/eve//{made.memory_id}"]) != {}


def test_nobody_gives_away_more_scopes_than_they_have(planted: Planted) -> None:
    gateway = planted.harness.gateway
    operator, _ = planted.key("operator", "user/ada")
    body = CreateKeyBody(name="phone", namespaces=("own",), scopes=("user/ada/phone",))
    made = governance_operations.create_key(gateway, operator, body)
    outside, everywhere = (
        CreateKeyBody(name="x", namespaces=("own",), scopes=scopes) for scopes in (("user",), ())
    )

    assert made.key.scopes == ("user/ada/phone",)
    assert gateway.keyring.authenticate(made.token).scopes == ("user/ada/phone",)
    for wrong in (outside, everywhere):
        with pytest.raises(Forbidden, match="limited to user/ada"):
            governance_operations.create_key(gateway, operator, wrong)
    with pytest.raises(InvalidValue):
        gateway.keyring.create(name="x", role="agent", namespaces=["own"], scopes=["*"])
    with pytest.raises(InvalidValue, match="not a single string"):
        gateway.keyring.create(name="x", role="agent", namespaces=["own"], scopes="user/ada")
