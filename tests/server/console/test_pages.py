"""Every page over HTTP: its text, who may see it, its headers, and that it is escaped."""

import sys
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from standfast.bench.settings import BenchSettings
from standfast.ledger.checkpoint import InclusionReceipt, verify_receipt
from standfast.ledger.note import KeyFile, log_name
from standfast.optimize.settings import PromptSettings
from standfast.server.app import build_app, build_full_app
from standfast.server.console.routes import PAGES as ROUTES
from standfast.server.console.routes import console_routes
from standfast.settings import Settings
from tests.server.console.conftest import BrowserClient, browser_client, elements_of, words_of
from tests.server.console.sample_server import SampleServer, sample_server
from tests.server.harness import make_gateway

CHANGING = {"write", "correct", "forget", "forget one"}
WHOLE_STORE = {"runs", "trace", "same", "compare", "entry", "bench", "prompts", "grades", "report"}
PAGES = [
    "home",
    "home month",
    "activity",
    "search",
    "found",
    "refused",
    "playground",
    "asked",
    "asked then",
    "known",
    "people",
    "scopes",
    "scope",
    "write",
    "correct",
    "forget",
    "forget one",
    "record",
    "subject",
    "forgotten",
    "investigate",
    "investigated",
    "quarantine",
    "changes",
    "change",
    "conflicts",
    "approvals",
    "decided",
    "proposal",
    "sign",
    "runs",
    "trace",
    "same",
    "compare",
    "ledger",
    "entry",
    "keys",
    "bench",
    "prompts",
    "grades",
    "report",
    "words",
]
SAYS = {
    "home": "17 remembered in 7 days",
    "home month": "17 remembered in 30 days",
    "search": "Somebody should look at this.",
    "found": "Refunds over 500 euros take two signatures.",
    "asked": "It shares words with the question",
    "asked then": "EU refunds take 14 days.",
    "known": "3 memories as of",
    "activity": "remembered EU refunds take 30 days, and nobody need ask.",
    "refused": "The deploy key is [redacted: AWS access key id] and it works.",
    "people": "user/ada",
    "scopes": "shared by all",
    "scope": "replaced Ada pays by card.",
    "write": "Add a fact",
    "correct": "Ada pays by bank transfer.",
    "forget": "Rehearsal: what would be erased",
    "forget one": "Forget payload",
    "record": "EU refunds take 14 30 days , and nobody need ask .",
    "forgotten": "No longer in memory",
    "investigate": "Name something",
    "investigated": "Where it came from",
    "quarantine": "Rehearsal: what a quarantine would do",
    "changes": "new policy/eu-refunds · from doc:handbook",
    "change": "EU refunds take 14 30 days",
    "conflicts": "Ada lives in Cork.",
    "approvals": "Refunds over 500 euros take two signatures.",
    "decided": "No proposal has been decided yet",
    "proposal": "Approve as law",
    "sign": "Refunds over 500 euros take two signatures.",
    "runs": "damaged",
    "trace": "Complete trace",
    "same": "Both runs did the same.",
    "compare": "first difference",
    "ledger": "created: agent, agent",
    "entry": "Signed checkpoint",
    "keys": "Nobody can give away more than they have",
    "bench": "Leaderboard at 1.0 KiB",
    "words": "The nine floors",
    "prompts": "13 fewer tokens",
    "grades": "Parcels leave at noon.",
    "report": "s3 fails now",
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_text_and_headers(operator: BrowserClient, harness: SampleServer, name: str) -> None:
    answer = operator.get(harness.pages()[name])
    headers = answer.headers

    assert answer.status_code == 200
    assert SAYS.get(name, "") in words_of(answer)
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["content-security-policy"].startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'"
    )
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_and_has_nothing_inline(
    operator: BrowserClient, harness: SampleServer, name: str
) -> None:
    """One heading, labelled fields, a token in every form that changes something, nothing inline or from
    another site.
    """
    answer = operator.get(harness.pages()[name])
    elements = elements_of(answer)
    labelled = {attributes.get("for") for tag, attributes in elements if tag == "label"}
    fields = [
        attributes
        for tag, attributes in elements
        if tag in ("input", "select", "textarea") and attributes.get("type") not in ("hidden", "radio")
    ]
    posts = sum(tag == "form" and attributes.get("method") == "post" for tag, attributes in elements)
    tokens = sum(attributes.get("name") == "form_token" for _, attributes in elements)
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    addresses = [
        str(attributes[name])
        for _, attributes in elements
        for name in ("src", "href", "action")
        if name in attributes
    ]

    assert sum(tag == "h1" for tag, _ in elements) == 1
    assert all(field.get("aria-label") or field.get("id") in labelled for field in fields)
    assert posts == tokens >= 1
    assert len(ids) == len(set(ids))
    assert not [attributes for _, attributes in elements if "style" in attributes]
    assert not [name for _, attributes in elements for name in attributes if name.startswith("on")]
    assert [attributes.get("src") for tag, attributes in elements if tag == "script"] == [
        address for address in addresses if "console.js" in address
    ]
    assert all(address.startswith(("/console/", "#")) for address in addresses)


@pytest.mark.parametrize("name", PAGES)
def test_an_auditor_sees_every_page_and_an_agent_those_of_its_namespace(
    harness: SampleServer, auditor: BrowserClient, agent: BrowserClient, name: str
) -> None:
    address = harness.pages()[name]
    statuses = auditor.get(address).status_code, agent.get(address).status_code

    assert statuses == (
        403 if name in CHANGING else 200,
        403
        if name in {*WHOLE_STORE, "refused", "keys", "investigate", "investigated", "quarantine"}
        else 200,
    )


def test_an_agent_can_not_see_another_namespace(agent: BrowserClient) -> None:
    found = {
        address.path: agent.get(f"/console/{address.path}?in=elsewhere&id=x&old=0&seq=1").status_code
        for address in ROUTES
        if address.path not in ("ledger", "entry", "receipt", "keys")
    }
    own_frame = agent.get("/console/search?in=elsewhere")

    assert set(found.values()) == {403}
    assert "elsewhere" not in [dict(element[1]).get("value") for element in elements_of(own_frame)]


def test_the_system_namespace_is_refused(operator: BrowserClient) -> None:
    assert operator.get("/console/search?in=standfast").status_code == 403


def test_the_menu_lists_only_permitted_pages(agent: BrowserClient) -> None:
    links = [
        attributes.get("href", "") for tag, attributes in elements_of(agent.get("/console/")) if tag == "a"
    ]

    assert any("/console/playground" in str(one) for one in links)
    assert not [
        one
        for one in links
        if any(f"/console/{path}" in str(one) for path in ("runs", "bench", "prompts", "refused", "keys"))
    ]


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/console/nowhere", 404),
        ("/console/static/none.css", 404),
        ("/console/record?id=none", 404),
        ("/console/record", 422),
        ("/console/changes?at=999", 404),
        ("/console/changes?at=many", 422),
        ("/console/changes?at=-1", 404),
        ("/console/changes?since=yesterday", 422),
        ("/console/search?cursor=none", 400),
        ("/console/search?band=NONE", 422),
        ("/console/known?day=2026-13-01", 422),
        ("/console/known?day=2026-01-01&zone=9999", 422),
        ("/console/playground?q=x&tokens=0", 422),
        ("/console/playground?q=x&controller=none", 422),
        ("/console/playground?q=x&scopes=a//b", 422),
        ("/console/?period=year", 422),
        ("/console/proposal?id=none", 404),
        ("/console/trace?run=none", 404),
        ("/console/trace?run=run-z", 422),
        ("/console/compare?left=none&right=none", 404),
        ("/console/bench?budget=7", 200),
        ("/console/entry?seq=0", 404),
        ("/console/entry?seq=99999", 404),
        ("/console/report?file=..%2F..%2Fetc%2Fpasswd", 422),
        ("/console/report?file=optimization-torn.json", 422),
        ("/console/search?in=" + "x" * 300, 422),
    ],
)
def test_an_error_is_an_html_page(operator: BrowserClient, address: str, status: int) -> None:
    answer = operator.get(address)

    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert "Traceback" not in answer.text


@given(
    words=st.dictionaries(
        st.sampled_from(
            [
                "at",
                "id",
                "q",
                "band",
                "cursor",
                "day",
                "since",
                "until",
                "zone",
                "scopes",
                "tokens",
                "controller",
                "period",
                "run",
                "left",
                "right",
                "seq",
                "file",
                "budget",
                "after",
                "begin",
                "in",
            ]
        ),
        st.text(max_size=12),
    ),
    page=st.sampled_from(ROUTES),
)
@settings(max_examples=40)
def test_no_address_breaks_a_page(operator: BrowserClient, words: dict[str, str], page: object) -> None:
    query = "&".join(f"{name}={quote(word, errors='replace')}" for name, word in words.items())
    answer = operator.get(f"/console/{page.path}?{query}")  # type: ignore[attr-defined]

    assert answer.status_code < 500


def test_an_empty_store_has_a_hint_on_every_page(tmp_path: Path) -> None:
    gateway = make_gateway(tmp_path / "store.db")
    _, key = gateway.keyring.create(name="ann", role="operator", namespaces=["*"])
    nothing = Settings(
        sections=(
            BenchSettings(results=str(tmp_path / "none")),
            PromptSettings(reports=str(tmp_path), overrides=str(tmp_path / "no")),
        ),
    )
    app = build_app(gateway, parts=[console_routes(nothing, behind_tls=False)])
    with TestClient(app, follow_redirects=False) as http:
        client = BrowserClient(http)
        client.sign_in(key)
        texts = {
            address.path: words_of(client.get(f"/console/{address.path}"))
            for address in ROUTES
            if address.group
        }
    gateway.close()

    assert "This namespace is empty" in texts[""]
    assert "Ask something" in texts["playground"]
    assert "Nobody is known here" in texts["scopes"]
    assert "No change" in texts["changes"]
    assert "Nothing was known" in texts["known"]
    assert "No proposal is waiting" in texts["approvals"]
    assert "Traces are not stored" in texts["runs"]
    assert "No results" in texts["bench"]
    assert "No reports yet" in texts["prompts"]
    assert "No overrides" in texts["prompts"]


def test_the_server_has_the_api_and_the_console(
    harness: SampleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without MCP, whose import takes long."""
    monkeypatch.setitem(sys.modules, "standfast.server.mcp.server", None)
    _, paths = build_full_app(harness.gateway, behind_tls=True)

    assert paths == ["/v1", "/console"]


def test_a_downloaded_receipt_proves_its_entry(harness: SampleServer, operator: BrowserClient) -> None:
    answer = operator.get("/console/receipt?seq=5")
    receipt = InclusionReceipt.from_json(msgspec.json.decode(answer.content))
    key = KeyFile(
        harness.folder / "store.db-files/log.key", name=log_name(harness.folder / "store.db")
    ).load()

    assert answer.headers["content-disposition"] == 'attachment; filename="receipt-5.json"'
    assert verify_receipt(receipt, key.verifying_key)["seq"] == 5


def test_the_ledger_has_newest_and_oldest_pages(operator: BrowserClient, harness: SampleServer) -> None:
    last = max(entry.seq for entry in harness.gateway.store.entries())
    newest = words_of(operator.get("/console/ledger"))
    oldest = words_of(operator.get("/console/ledger?after=0"))

    assert f"{last} " in newest
    assert "Newer" not in newest
    assert "created: operator, operator" in oldest


@pytest.mark.parametrize("row", ['{"condition": "plain"}', '["x"]', "{", ""])
def test_broken_benchmark_results_are_reported(tmp_path: Path, row: str) -> None:
    (tmp_path / "results.jsonl").write_text(row, encoding="utf-8")
    gateway = make_gateway(tmp_path / "store.db")
    _, key = gateway.keyring.create(name="ann", role="operator", namespaces=["*"])
    settings = Settings(sections=(BenchSettings(results=str(tmp_path)),))
    app = build_app(gateway, parts=[console_routes(settings, behind_tls=False)])
    with TestClient(app, follow_redirects=False) as http:
        client = BrowserClient(http)
        client.sign_in(key)
        answer = client.get("/console/bench")
    gateway.close()

    assert answer.status_code == 200
    assert "No results" in words_of(answer)


def test_static_files_have_their_type_and_may_be_cached(operator: BrowserClient) -> None:
    for name, kind in (
        ("console.css", "text/css"),
        ("console.js", "text/javascript"),
        ("icon.svg", "image/svg+xml"),
    ):
        answer = operator.get(f"/console/static/{name}")

        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        assert "immutable" in answer.headers["cache-control"]


def test_verdicts_and_bands_are_plain_words(operator: BrowserClient, harness: SampleServer) -> None:
    home = words_of(operator.get(harness.pages()["home"]))
    rejected = words_of(operator.get(harness.pages()["refused"]))

    for word in ("law", "long-term memory", "working memory", "observations", "rejected"):
        assert word in home
    for word in ("SEAL", "VOID", "888_HOLD", "VAULT", "LEDGER", "ACTIVE"):
        assert word not in home
        assert word not in rejected


def test_rejected_content_has_its_reason_and_filters(operator: BrowserClient, harness: SampleServer) -> None:
    shown = words_of(operator.get(harness.pages()["refused"]))
    filtered = words_of(operator.get("/console/refused?q=nothing+like+it"))

    assert shown.index("no secrets") < shown.index("[redacted: AWS access key id]")
    assert "AKIA" not in shown
    assert "Nothing was rejected" in filtered


def test_the_playground_shows_the_text_of_recall_and_why(
    operator: BrowserClient, harness: SampleServer
) -> None:
    """The same bytes that an agent gets, and a reason for each memory that is in it or is not."""
    asked = operator.get(harness.pages()["asked"])
    recalled = harness.gateway.home.recall("When do refunds come?", scopes=["shared", "user/ada"])
    words = words_of(asked)

    assert " ".join(recalled.text.split()) in words
    assert "1. It shares words with the question, and it means something similar (refund)" in words
    assert "score 1.000 · trust at most 0.85" in words
    assert "1 waits for a decision" in words


def test_the_playground_says_what_did_not_fit(operator: BrowserClient) -> None:
    words = words_of(operator.get("/console/playground?q=gates&tokens=30"))

    assert "did not fit the token budget" in words


def test_the_playground_names_what_a_memory_repeats_by_its_number(tmp_path: Path) -> None:
    with (
        sample_server(tmp_path, memory_only=True) as server,
        browser_client(server, server.operator) as client,
    ):
        for session in ("monday", "tuesday"):
            server.gateway.home.add(
                [{"role": "user", "content": "The parrot talks."}], scope="user/zoe", session=session
            )
        words = words_of(client.get("/console/playground?q=parrot&scopes=user/zoe"))

    assert "says the same as number 1" in words


def test_memory_of_a_day_is_what_was_known_then(operator: BrowserClient, harness: SampleServer) -> None:
    """In the reader's own time: the same minute two hours further east is two hours earlier."""
    then = words_of(operator.get(harness.pages()["known"]))
    east = words_of(operator.get("/console/known?day=2026-01-01T04:30&zone=120"))
    asked = words_of(operator.get(harness.pages()["asked then"]))

    assert "EU refunds take 14 days." in then
    assert "30 days" not in then
    assert "1 memory as of" in east
    assert "EU refunds take 14 days." in asked


def test_a_refused_call_is_summarised_in_the_ledger(tmp_path: Path) -> None:
    with (
        sample_server(tmp_path, memory_only=True) as server,
        browser_client(server, server.operator) as client,
    ):
        client.get("/console/search?in=standfast")
        server.gateway.access_log.flush()
        entries = words_of(client.get("/console/ledger"))

    assert "console, search: forbidden" in entries


def test_every_page_about_memory_opens_on_postgresql(tmp_path: Path, postgres_store_url: str) -> None:
    with (
        sample_server(tmp_path, memory_only=True, url=postgres_store_url) as server,
        browser_client(server, server.operator) as operator,
    ):
        # The record that is in quarantine comes with the traces, which are not there.
        names = server.pages().keys() - WHOLE_STORE - {"held"}
        answers = {name: operator.get(server.pages()[name]).status_code for name in sorted(names)}
        verified = operator.post("/console/ledger")

    assert {name: code for name, code in answers.items() if code != 200} == {}
    assert "No problem found" in verified.text
