"""The API's description is true: what it says is accepted is, what it says is answered is, and nothing
else.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, validate
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from standfast.errors import StandfastError
from standfast.server.app import build_app
from standfast.server.edge.event_streams import EVENTS_PATH
from standfast.server.edge.problems import STATUS_OF_CODE, status_of
from standfast.server.http.endpoints import ENDPOINTS
from standfast.server.http.openapi import openapi_document
from standfast.server.operations.schemas import struct_names
from tests.server.artifacts import artifact_harness
from tests.server.harness import FACT, Harness
from tests.test_errors import error_examples


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    return artifact_harness(tmp_path_factory.mktemp("described"))


@pytest.fixture(scope="module")
def app(harness: Harness) -> Iterator[ASGIApp]:
    app = build_app(harness.gateway)
    with TestClient(app):
        yield app


@pytest.fixture(scope="module")
def schema(app: ASGIApp) -> Any:
    import schemathesis

    schema = schemathesis.openapi.from_dict(openapi_document())
    schema.app = app
    return schema


def _checked(name: str, schema: Any, harness: Harness, data: st.DataObject, mode: str) -> int:
    """One generated call, and every check that schemathesis has for its answer, whose status is given."""
    import schemathesis
    from schemathesis import checks

    headers = harness.headers("operator", "*")
    operation = schema.find_operation_by_id(name)
    there = _places(operation.path, schema.app, headers) if mode == "positive" else {}
    case = data.draw(operation.as_strategy(schemathesis.GenerationMode(mode)))
    case.path_parameters = {**case.path_parameters, **there}
    # An empty list or object, or nothing, is not sent in a query. Without it the request may be right.
    assume(mode == "positive" or all(value not in (None, [], {}) for value in (case.query or {}).values()))
    # Names that are not printable, not in NFC or too long in bytes are refused (422) though the description
    # lets them pass: JSON Schema has no word for it. So only plain ones must succeed in any case.
    texts = [value for value in (case.query or {}).values() if isinstance(value, str)]
    assume(
        mode == "negative"
        or name not in ALWAYS_DONE
        or all(one.isascii() and one.isprintable() for one in texts)
    )
    answer = case.call_and_validate(headers=headers, excluded_checks=[checks.positive_data_acceptance])
    return int(answer.status_code)


def _places(path: str, app: ASGIApp, headers: dict[str, str]) -> dict[str, str]:
    """What is really there, for the names in an address."""
    client = TestClient(app, headers=headers)
    # Not the home's namespace, whose runs leave traces: the runs of these tests are opened under one key
    # again and again.
    places = {"namespace": "described", "seq": "1", "run_id": "run-a", "ns": "agent", "prompt_key": "support"}
    if "/runs/{run_id}" in path:
        body = {"workflow": "triage", "mode": "buffered_write"}
        keyed = {"Idempotency-Key": "the-one-of-this-test"}
        places["run_id"] = client.post("/v1/namespaces/described/runs", json=body, headers=keyed).json()[
            "run_id"
        ]
    if "{proposal_id}" in path:
        proposed = {**FACT, "subject": None, "text": f"Rule {len(path)} of 7.", "propose": True}
        client.post("/v1/namespaces/described/remember", json=proposed)
        waiting = client.get("/v1/namespaces/described/proposals").json()["proposals"]
        places["proposal_id"] = waiting[0]["proposal_id"]
    return {name: value for name, value in places.items() if f"{{{name}}}" in path}


# The default run tries a few calls of each route; the long one many.
EXAMPLES = [1, pytest.param(100, marks=pytest.mark.slow)]
ROUTES = [one.name for one in ENDPOINTS]
# Without a body or a field there is nothing to get wrong.
FALLIBLE_ROUTES = [one.name for one in ENDPOINTS if one.has_body or one.request.__struct_fields__]


# These succeed for every request that fits the description; the others depend on the content of the store.
ALWAYS_DONE = {
    *("status", "get_proposal", "due", "sweep", "receipt"),
    *("checkpoint", "verify", "get_run", "discard_run", "commit_run"),
    *("list_traces", "get_trace", "snapshots", "ledger", "list_proposals", "history"),
}


def _tried(name: str, schema: Any, harness: Harness, mode: str, examples: int) -> set[int]:
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(data=st.data())
    def attempt(data: st.DataObject) -> None:
        statuses.add(_checked(name, schema, harness, data, mode))

    statuses: set[int] = set()
    attempt()
    return statuses


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("name", ROUTES)
def test_calls_that_are_right_are_answered_as_described(
    name: str, schema: Any, harness: Harness, examples: int
) -> None:
    statuses = _tried(name, schema, harness, "positive", examples)

    assert name not in ALWAYS_DONE or statuses == {200}


@pytest.mark.parametrize(
    ("name", "examples"),
    [("remember", 5), *(pytest.param(name, 100, marks=pytest.mark.slow) for name in FALLIBLE_ROUTES)],
)
def test_calls_that_are_wrong_are_refused_as_described(
    name: str, schema: Any, harness: Harness, examples: int
) -> None:
    _tried(name, schema, harness, "negative", examples)


NOT_SAYABLE = {
    "the cursor does not belong": "a cursor is made by the list that it belongs to",
    "the idempotency key .* was used for another request": "what was sent before under the key",
    "there is no (record|refusal|conflict|session) ": "what the store holds",
    "there is no controller ": "which controllers a deployment has registered",
    "no model is set that finds facts": "whether the operator set one",
    "no run had -?[0-9]+ bytes": "the budgets of the grid that ran",
    "can be pinned|can take a pin off": "which kinds of sources are trusted: a setting",
    "has version [0-9]+ now": "the version that If-Match must name",
    "recorded its output already|no event is open": "what the run did before",
    "valid_from must be before valid_until|must be after since": "one field is compared with another",
    "is far behind it": "a position is compared with the number of messages of its session",
    "budgets together": "a sum over the items of a list",
    "snapshots after old": "one field is compared with another",
    "two sections .*have the same key|a section is overridden twice": "items are told apart by one field",
    "another (prompt|proposal) than the path names": "a field of the body is compared with the path",
    "has no section |does not match the source": "an override is compared with its prompt",
    "must name the statement, once": "the hash of another field",
    "the signature was refused": "a signature is computed from what is signed",
    "not the JSON of a filter|is not a JSON text": "JSON within a text of a query",
}
"""What the server rejects and JSON Schema has no word for, each with what the answer depends on."""
NOT_PLAIN = {
    "printable characters|in NFC|say why": "patterns know neither normal forms nor all categories",
    "bytes": "a length is counted in characters, not in bytes of UTF-8",
}
"""The same, of texts beyond ASCII."""


def _fitted(case: Any) -> None:
    """Let what a body says of its path be true, and name what exists, so that the rest is judged too."""
    for body in (case.body, *(case.body.get("items", ()) if isinstance(case.body, dict) else ())):
        if not isinstance(body, dict):
            continue
        if "prompt" in body:
            body["prompt"] |= {"ns": "agent", "key": "support"}
        if "statement" in body:
            body["statement"]["proposal_id"] = case.path_parameters["proposal_id"]
        if "controller" in body:
            body["controller"] = "lexical-v1"


@pytest.mark.parametrize(
    ("examples", "codec"),
    [
        (2, "ascii"),
        pytest.param(100, "ascii", marks=pytest.mark.slow),
        pytest.param(100, "utf-8", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", FALLIBLE_ROUTES)
def test_what_the_description_allows_is_not_rejected(
    name: str, app: ASGIApp, harness: Harness, examples: int, codec: str
) -> None:
    """Patterns of names and scopes, forms of times, bounds of numbers, and which fields go together."""
    import schemathesis

    config = schemathesis.Config()
    config.projects.default.generation.codec = codec
    described = schemathesis.openapi.from_dict(openapi_document(), config=config)
    described.app = app
    operation = described.find_operation_by_id(name)
    headers = harness.headers("operator", "*")
    allowed = "|".join([*NOT_SAYABLE, *(NOT_PLAIN if codec == "utf-8" else ())])
    rejected = list[str]()

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(data=st.data())
    def attempt(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(schemathesis.GenerationMode("positive")))
        case.path_parameters = {**case.path_parameters, **_places(operation.path, app, headers)}
        _fitted(case)
        answer = case.call(headers=headers)
        if name == "open_run" and answer.status_code in (200, 201):
            # A key has only so many open runs.
            opened = f"/v1/namespaces/described/runs/{answer.json()['run_id']}"
            TestClient(app, headers=headers).delete(opened)
        # What is not there, not open or not allowed to the key is no matter of the description.
        if answer.status_code in (200, 201, 403, 404, 409):
            return
        detail = answer.json()["detail"]
        if not re.search(allowed, detail, re.IGNORECASE):
            rejected.append(f"{answer.status_code} {detail}")

    attempt()

    assert rejected == []


def test_every_field_of_a_request_has_a_description_and_an_example_that_fits() -> None:
    document = openapi_document()
    components = document["components"]
    found = 0
    for name in struct_names([one.request for one in ENDPOINTS]):
        for field, schema in components["schemas"][name].get("properties", {}).items():
            assert schema["description"], f"{name}.{field}"
            (example,) = schema["examples"]
            validate(example, {**schema, "components": components}, Draft202012Validator)
            found += 1
    for one in ENDPOINTS:
        operation = document["paths"][one.path][one.method.lower()]
        assert operation["tags"] == [one.tag]
        if one.has_body:
            content = operation["requestBody"]["content"]["application/json"]
            schema = {**content["schema"], "components": components}
            validate(content["example"], schema, Draft202012Validator)

    assert found > 150


def test_a_whole_number_may_be_written_with_a_point(app: ASGIApp, harness: Harness) -> None:
    client = TestClient(app, headers=harness.headers("operator", "*"))
    body = {"query": "refunds", "tokens": 300.0}

    assert client.post("/v1/namespaces/described/recall", json=body).status_code == 200
    refused = client.post("/v1/namespaces/described/recall", json={**body, "tokens": 300.5})
    assert (refused.status_code, "float" in refused.json()["detail"]) == (422, True)


def test_a_second_profile_of_a_tool_is_a_conflict(app: ASGIApp, harness: Harness) -> None:
    client = TestClient(app, headers=harness.headers("operator", "*"))
    runs = "/v1/namespaces/described/runs"
    run_id = client.post(runs, json={"workflow": "triage"}).json()["run_id"]
    offered = {"tool_name": "search", "tool_profile_version": "1"}
    first = client.post(f"{runs}/{run_id}/record", json={"offered": offered})
    second = client.post(
        f"{runs}/{run_id}/record", json={"offered": {**offered, "tool_profile_version": "2"}}
    )

    assert (first.status_code, second.status_code) == (200, 409)
    assert second.json()["code"] == "profile_conflict"


def test_the_checks_would_see_an_answer_that_is_not_as_described(schema: Any, harness: Harness) -> None:
    """The description of one answer is bent; if this passed, the tests above would prove nothing."""
    import schemathesis
    from schemathesis.core.failures import FailureGroup

    bent = json.loads(json.dumps(openapi_document()))
    bent["components"]["schemas"]["StatusResponse"]["properties"]["head"] = {"type": "string"}
    wrong = schemathesis.openapi.from_dict(bent)
    wrong.app = schema.app
    with pytest.raises(FailureGroup):
        _tried("status", wrong, harness, "positive", 1)


def test_a_cursor_is_described_as_what_its_list_takes() -> None:
    """A client that sends a cursor of the described form to the lists below is never refused."""
    patterns = {
        one.name: msgspec.json.schema(one.request)["$defs"][one.request.__name__]["properties"]["cursor"]
        for one in ENDPOINTS
        if "cursor" in one.request.__struct_fields__
    }
    described = {name: schema["anyOf"][0]["pattern"][:8] for name, schema in patterns.items()}

    assert described == {
        "list_records": "^[0-9]{1",
        "history": "^[0-9]{1",
        "session": "^[0-9]{1",
        "sessions": "^[0-9]{1",
        "snapshots": "^[0-9]{1",
        "list_proposals": "^([0-9a-",
        "ledger": "^[0-9]{1",
        "list_keys": "^([0-9a-",
        "list_traces": "^([0-9a-",
    }


def test_generated_clients_get_exact_types() -> None:
    """A response has all its fields, save one that leaves defaults out; a request needs only what has no
    default.
    """
    schemas: dict[str, Any] = openapi_document()["components"]["schemas"]
    optional = {
        name: sorted(set(schemas[name]["properties"]).difference(schemas[name]["required"]))
        for name in ("RememberResponse", "Record", "ServerEvent", "Approval", "Statement")
    }

    assert optional == {
        "RememberResponse": [],
        "Record": [],
        "ServerEvent": [],
        "Approval": ["signed_list"],
        "Statement": ["replaces", "text"],
    }
    assert schemas["RememberRequest"]["required"] == ["text"]
    # Without this a generator takes the object for one that has no fields.
    assert schemas["RecallResponse"]["properties"]["package"]["additionalProperties"] is True


def test_the_description_is_served_and_names_every_route(app: ASGIApp) -> None:
    served: dict[str, Any] = TestClient(app).get("/openapi.json").json()

    assert served == json.loads(json.dumps(openapi_document()))
    assert {(path, method) for path, methods in served["paths"].items() for method in methods} == {
        (EVENTS_PATH, "get"),
        *((one.path, one.method.lower()) for one in ENDPOINTS),
    }


@pytest.mark.parametrize("error", error_examples(), ids=lambda error: error.code)
def test_every_error_has_a_status(error: StandfastError) -> None:
    assert 400 <= status_of(error) < 600


def test_only_codes_that_exist_have_a_status() -> None:
    assert set(STATUS_OF_CODE) <= {error.code for error in error_examples()}
