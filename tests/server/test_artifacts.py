"""Traces, benchmark results and prompts over HTTP and through the client."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from standfast.client import Client
from standfast.clock import RandomIds
from standfast.errors import NotFound
from standfast.optimize.errors import VersionConflict
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.prompts.overrides import PromptOverride
from standfast.server.app import build_app
from standfast.traces.artifact import Trace
from standfast.traces.folder import TraceFolder
from tests.raising import raises_code
from tests.server.artifacts import PROMPT, TEMPLATE, artifact_harness, put_body, shorter
from tests.server.harness import Harness, Served
from tests.traces.scripted import Script, a_run, recorded


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """One for all that only read."""
    return artifact_harness(tmp_path_factory.mktemp("stocked"))


@pytest.fixture(scope="module")
def reader(stocked: Harness) -> Iterator[TestClient]:
    with TestClient(build_app(stocked.gateway), headers=stocked.headers("auditor", "*")) as client:
        yield client


def _prompt_facts(harness: Harness) -> list[dict[str, Any]]:
    entries = [entry.read() for entry in harness.gateway.store.entries()]
    return [
        entry["body"]["told"] for entry in entries if entry["kind"] in ("prompt_change", "prompt_settled")
    ]


def test_traces_come_in_pages_and_a_damaged_one_says_so_without_a_path(tmp_path: Path) -> None:
    harness = artifact_harness(tmp_path)
    (tmp_path / "traces" / "run-z.json").write_text("no trace", encoding="utf-8")
    with TestClient(build_app(harness.gateway), headers=harness.headers("auditor", "*")) as http:
        first = http.get("/v1/traces", params={"limit": 2}).json()
        second = http.get("/v1/traces", params={"limit": 2, "cursor": first["next"]}).json()
        damaged = http.get("/v1/traces/run-z")
        rejected = http.get("/v1/traces/compare", params={"left": "run-a", "right": "run-z"}).json()

    assert [line["run_id"] for line in first["traces"] + second["traces"]] == [
        "run-a",
        "run-b",
        "run-c",
        None,
    ]
    assert [line["problem"] for line in second["traces"]] == [None, "invalid_trace"]
    assert second["next"] is None
    assert (damaged.status_code, damaged.json()["code"]) == (500, "invalid_trace")
    assert str(tmp_path) not in damaged.text
    assert rejected["verdict"] == "rejected"


def test_a_trace_is_returned_whole_and_two_are_compared(stocked: Harness, reader: TestClient) -> None:
    assert stocked.gateway.home.traces is not None

    answer = reader.get("/v1/traces/run-a").json()
    same = reader.get("/v1/traces/compare", params={"left": "run-a", "right": "run-b"}).json()
    other = reader.get("/v1/traces/compare", params={"left": "run-a", "right": "run-c"}).json()

    assert Trace.from_document(answer) == stocked.gateway.home.traces.get("run-a")
    assert (same["verdict"], same["differences"]) == ("equivalent", [])
    assert other["verdict"] == "different"
    assert other["differences"][0]["left"] != other["differences"][0]["right"]


@pytest.mark.parametrize("run_id", ["none", "..", "%2e%2e%2fstore", "a" * 9_000, "%00", "~x"])
def test_no_address_of_a_trace_leads_to_another_file(reader: TestClient, run_id: str) -> None:
    assert reader.get(f"/v1/traces/{run_id}").status_code == 404


def test_bench_results_are_the_leaderboard_and_a_report_for_each_policy(reader: TestClient) -> None:
    answer = reader.get("/v1/bench").json()
    small = reader.get("/v1/bench", params={"budget_bytes": 512}).json()
    never_run = reader.get("/v1/bench", params={"budget_bytes": 7})

    assert (answer["budget_bytes"], answer["budgets_bytes"], answer["episodes"]) == (1_024, [512, 1_024], 1)
    assert small["budget_bytes"] == 512
    assert {line["policy"] for line in answer["leaderboard"]} == {"AlwaysWrite", "ExpireOldest"}
    assert [len(report["budgets"]) for report in answer["reports"]] == [2, 2]
    assert never_run.status_code == 422


def test_a_prompt_is_changed_only_in_the_version_that_was_read(tmp_path: Path) -> None:
    harness = artifact_harness(tmp_path)
    with TestClient(build_app(harness.gateway), headers=harness.headers("operator", "*")) as http:
        read = http.get(PROMPT)
        first = http.put(PROMPT, json=put_body("${language}!"), headers={"If-Match": read.headers["etag"]})
        late = http.put(PROMPT, json=put_body("${language}?"), headers={"If-Match": read.headers["etag"]})
        back = http.post(
            f"{PROMPT}/rollback",
            json={"prompt": TEMPLATE.as_json()},
            headers={"If-Match": first.headers["etag"]},
        )
        again = http.post(
            f"{PROMPT}/rollback",
            json={"prompt": TEMPLATE.as_json()},
            headers={"If-Match": first.headers["etag"]},
        )
        held = http.get(PROMPT)

    assert [read.headers["etag"], first.headers["etag"], back.headers["etag"]] == ['"1"', '"2"', '"3"']
    assert (late.status_code, late.json()["code"]) == (412, "version_conflict")
    assert again.status_code == 412, "a rollback whose answer was lost is not undone by asking again"
    assert PromptOverride.from_json(held.json()).overrides == (shorter(),)
    assert [fact.get("kind", fact.get("applied")) for fact in _prompt_facts(harness)] == [
        "set",
        True,
        "rollback",
        True,
    ]
    assert held.json()["seal_id"]


@pytest.mark.parametrize(
    "if_match", [None, "1", "*", 'W/"1"', '"01"', '"-1"', '"1", "2"', '"9999999999999999"']
)
def test_a_change_without_a_version_is_refused(stocked: Harness, if_match: str | None) -> None:
    headers = stocked.headers("operator", "*") | ({} if if_match is None else {"If-Match": if_match})
    with TestClient(build_app(stocked.gateway)) as http:
        answer = http.put(PROMPT, json=put_body(), headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (put_body("No placeholder."), "broken_placeholders"),
        (put_body(tag=""), "invalid_value"),
        ({**put_body(), "overrides": [shorter().as_json()] * 2}, "invalid_value"),
        ({**put_body(), "prompt": {**TEMPLATE.as_json(), "key": "other"}}, "invalid_value"),
        ({**put_body(), "overrides": [{**shorter().as_json(), "expected_hash": "0" * 64}]}, "stale_override"),
        ({**put_body(), "overrides": [{**shorter().as_json(), "path": ["none"]}]}, "unknown_section"),
    ],
)
def test_what_does_not_fit_the_source_changes_nothing(
    stocked: Harness, body: dict[str, Any], code: str
) -> None:
    recorded = len(_prompt_facts(stocked))
    with TestClient(build_app(stocked.gateway), headers=stocked.headers("operator", "*")) as http:
        answer = http.put(PROMPT, json=body, headers={"If-Match": '"1"'})
        held = http.get(PROMPT)

    assert (answer.status_code, answer.json()["code"]) == (422, code)
    assert held.headers["etag"] == '"1"'
    assert len(_prompt_facts(stocked)) == recorded, "a refused change is not recorded in the ledger"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/traces"),
        ("GET", "/v1/traces/run-a"),
        ("GET", "/v1/traces/compare?left=a&right=b"),
        ("GET", "/v1/bench"),
        ("GET", PROMPT),
        ("PUT", PROMPT),
    ],
)
def test_what_no_setting_names_is_not_configured(
    harness: Harness, http: TestClient, method: str, path: str
) -> None:
    headers = {**harness.headers("operator", "*"), "If-Match": '"0"'}
    answer = http.request(method, path, headers=headers, json=put_body() if method == "PUT" else None)

    assert (answer.status_code, answer.json()["code"]) == (404, "not_configured")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["facts"]["setting"] in answer.json()["detail"]


def test_an_override_for_an_older_source_can_be_replaced(tmp_path: Path) -> None:
    """Otherwise nobody could mend it from afar."""
    harness = artifact_harness(tmp_path)
    (section,) = TEMPLATE.as_json()["sections"]
    newer = {**TEMPLATE.as_json(), "sections": [{**section, "body": "Be brief."}]}
    with TestClient(build_app(harness.gateway), headers=harness.headers("operator", "*")) as http:
        body = {"prompt": newer, "overrides": []}
        answer = http.put(PROMPT, json=body, headers={"If-Match": '"1"'})

    assert (answer.status_code, answer.headers["etag"]) == (200, '"2"')


def test_the_client_reads_traces_and_changes_prompts(tmp_path: Path) -> None:
    (tmp_path / "standfast.toml").write_text('traces = "traces"\n', encoding="utf-8")
    folder = TraceFolder(tmp_path / "traces", ids=RandomIds())
    kept = [
        recorded(Script(question="refunds"), a_run(run_id, workflow_id="triage", memory_snapshot_id=4))
        for run_id in ("run/a", "run-b")
    ]
    for trace in kept:
        folder.put(trace)
    server = Served(tmp_path)
    server.start()
    try:
        with Client(server.address, key=server.key) as client:
            listed = {line.run_id for line in client.traces().list()}
            got = client.traces().get("run-b")
            comparison = client.traces().compare("run/a", "run-b")
            with pytest.raises(NotFound):
                client.bench()
            with pytest.raises(NotFound):
                client.prompts().get("agent", "support")
            put = client.prompts().put(TEMPLATE, [shorter()], if_version=0)
            with pytest.raises(VersionConflict):
                client.prompts().put(TEMPLATE, [shorter()], if_version=0)
            got_prompt = client.prompts().get("agent", "support")
            back = client.prompts().rollback(TEMPLATE, if_version=put.version)
            with pytest.raises(VersionConflict):
                client.prompts().rollback(TEMPLATE, if_version=put.version)
            again = client.prompts().rollback(TEMPLATE, if_version=back.version, to_version=put.version)
            back = client.prompts().rollback(TEMPLATE, if_version=again.version, to_version=0)
    finally:
        server.process.stop()

    assert listed == {"run/a", "run-b"}
    assert got == kept[1]
    assert comparison.is_equivalent
    assert got_prompt == put
    assert again.overrides == put.overrides
    assert back.overrides == ()
    assert (
        LocalPromptOverridesStore(tmp_path / "overrides").resolve(
            ns="agent", prompt_key="support", tag="stable"
        )
        == back
    )


def test_the_client_raises_what_the_server_raised(served: Served) -> None:
    with Client(served.address, key=served.key) as client:
        with raises_code("not_configured", match="traces = "):
            list(client.traces().list())
        with raises_code("no_rollback"):
            client.prompts().rollback(TEMPLATE, if_version=0, tag="never-changed")
