"""One search across everything that a key may see, with filters, sort and pages in the address."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from standfast.server.access.permissions import Permission
from standfast.server.console import search
from standfast.server.console.search import Search, SearchQuery, SearchResults
from standfast.server.operations.memory_operations import readable_bands
from tests.server.console.conftest import browser_client, elements_of, words_of
from tests.server.console.sample_server import SampleServer, sample_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    """The sample server, with the memory of two users and a second namespace."""
    with sample_server(tmp_path_factory.mktemp("search"), memory_only=True) as built:
        home = built.gateway.home
        home.remember(
            "Eve's invoices go to Bergen.",
            subject="invoices",
            scope="user/eve",
            tags=["billing"],
            source={"kind": "doc", "id": "ticket-7"},
        )
        home.remember("Bob's invoices go to Cork.", subject="invoices", scope="user/bob")
        home.add([{"role": "user", "content": "My invoices are late."}], scope="user/eve/chat", session="s1")
        operator = built.gateway.keyring.authenticate(built.operator)
        other = built.gateway.authorize(operator, Permission.REMEMBER, "other")
        other.remember("Invoices of another tenant.", subject="invoices")
        yield built


def found_by(server: SampleServer, key: str | None = None, **fields: object) -> SearchResults:
    """The results of a search of the operator, or of another key."""
    gateway = server.gateway
    caller = gateway.keyring.authenticate(key or server.operator)
    namespaces = ["default", "other"] if caller.covers_all else list(caller.namespaces)
    query = SearchQuery.from_json(fields)
    return Search(
        query,
        namespaces=[query.within] if query.within else namespaces,
        open_memory=lambda name: gateway.authorize(caller, Permission.LIST_RECORDS, name),
        bands=readable_bands(caller),
        scopes=[query.scope or "*"],
    ).run()


def texts_of(results: SearchResults) -> list[str]:
    """The texts of the results, in their order."""
    return [hit.row.text for hit in results.hits]


INVOICES = {
    "Eve's invoices go to Bergen.",
    "Bob's invoices go to Cork.",
    "My invoices are late.",
    "Invoices of another tenant.",
}


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({"q": "INVOICES"}, INVOICES),
        ({"q": "invoices bergen"}, {"Eve's invoices go to Bergen."}),
        ({"q": '"invoices go"'}, {"Eve's invoices go to Bergen.", "Bob's invoices go to Cork."}),
        ({"q": "ticket-7"}, {"Eve's invoices go to Bergen."}),
        ({"q": "invoices", "within": "other"}, {"Invoices of another tenant."}),
        ({"scope": "user/eve"}, {"Eve's invoices go to Bergen.", "My invoices are late."}),
        ({"scope": "user/e"}, set()),
        ({"scope": "user/bob"}, {"Bob's invoices go to Cork."}),
        ({"speaker": "User", "q": "invoices"}, {"My invoices are late."}),
        ({"session": "s1"}, {"My invoices are late."}),
        ({"kind": "messages", "scope": "user/eve"}, {"My invoices are late."}),
        ({"kind": "facts", "scope": "user/eve"}, {"Eve's invoices go to Bergen."}),
        ({"tag": "Billing"}, {"Eve's invoices go to Bergen."}),
        ({"source_kind": "Doc", "q": "invoices"}, {"Eve's invoices go to Bergen."}),
        ({"subject_prefix": "invo", "scope": "user/eve"}, {"Eve's invoices go to Bergen."}),
        ({"least_origin": "trusted", "q": "invoices"}, {"My invoices are late."}),
        ({"verdict": "VOID"}, {"The deploy key is [redacted: AWS access key id] and it works."}),
        (
            {"band": "PHOENIX"},
            {"Refunds over 500 euros take two signatures.", "Somebody should look at this."},
        ),
        ({"kind": "proposals", "verdict": "888_HOLD"}, {"Somebody should look at this."}),
        (
            {"q": "refunds", "kind": "records", "band": "LEDGER"},
            {"EU refunds take 30 days, and nobody need ask."},
        ),
        ({"q": "gate", "after": "2026-01-02"}, set()),
        ({"q": "gate", "before": "2026-01-02"}, {f"Gate {n} opens at {n + 6} o'clock." for n in range(3)}),
    ],
)
def test_words_and_filters_narrow_the_results(
    server: SampleServer, fields: dict[str, str], texts: set[str]
) -> None:
    results = found_by(server, **fields)

    assert set(texts_of(results)) == texts
    assert results.found == len(results.hits) == len(texts)


def test_results_are_sorted_by_time_or_name(server: SampleServer) -> None:
    newest = texts_of(found_by(server, q="gate"))
    oldest = texts_of(found_by(server, q="gate", sort="oldest"))
    named = [hit.name for hit in found_by(server, sort="name").hits]

    assert newest == [f"Gate {number} opens at {number + 6} o'clock." for number in (2, 1, 0)]
    assert oldest == newest[::-1]
    assert named == sorted(named)


def test_one_text_in_two_bands_is_one_result(server: SampleServer) -> None:
    (hit,) = found_by(server, q="warehouse").hits

    assert (hit.name, sorted(hit.bands)) == ("place/cork", ["ACTIVE", "LEDGER"])


def test_counts_lead_to_narrower_searches(server: SampleServer) -> None:
    facets = found_by(server, q="invoices").facets

    assert facets["scope"] == [("shared", 1), ("user/bob", 1), ("user/eve", 1), ("user/eve/chat", 1)]
    assert facets["tag"] == [("billing", 1)]


def test_agents_find_nothing_that_was_rejected_and_nothing_of_other_namespaces(server: SampleServer) -> None:
    rejected = found_by(server, server.agent, q="deploy")
    invoices = found_by(server, server.agent, q="invoices")

    assert texts_of(rejected) == []
    assert "Invoices of another tenant." not in texts_of(invoices)
    assert len(invoices.hits) == 3


@pytest.mark.parametrize("most", [1, 3, 7])
def test_a_bounded_search_goes_on_where_it_stopped(
    server: SampleServer, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    whole = sorted(texts_of(found_by(server, kind="records", band="LEDGER")))
    monkeypatch.setattr(search, "MAX_CONSOLE_SEARCHED_ROWS", most)
    parts, cursor = list[str](), ""
    for _ in range(len(whole) + 2):
        part = found_by(server, kind="records", band="LEDGER", cursor=cursor)
        parts += texts_of(part)
        cursor = part.next_cursor or ""
        assert part.read <= most
        if not cursor:
            break

    assert sorted(parts) == whole


def test_pages_of_results_hold_each_once(server: SampleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [hit.place for hit in found_by(server).hits]
    monkeypatch.setattr(search, "CONSOLE_PAGE_ITEMS", 4)
    pages, begin = list[tuple[str, ...]](), 0
    while begin is not None and begin <= len(whole):
        page = found_by(server, begin=begin)
        pages += [hit.place for hit in page.hits]
        begin = page.next_begin  # type: ignore[assignment]  # None ends the loop.

    assert pages == whole


def test_the_page_keeps_filters_in_its_links_and_fields(server: SampleServer) -> None:
    fields = {"q": "invoices", "scope": "user/eve", "sort": "oldest", "before": "2026-12-31"}
    with browser_client(server, server.operator) as client:
        answer = client.get("/console/search?" + urlencode(fields))
    values = {
        str(attributes.get("name")): attributes.get("value")
        for tag, attributes in elements_of(answer)
        if tag == "input"
    }
    narrower = [
        str(attributes["href"])
        for tag, attributes in elements_of(answer)
        if tag == "a" and "scope=user%2Feve%2Fchat" in str(attributes.get("href"))
    ]

    assert {name: values[name] for name in ("q", "scope", "before")} == {
        name: fields[name] for name in ("q", "scope", "before")
    }
    assert "2 results" in words_of(answer)
    assert all(part in narrower[0] for part in ("q=invoices", "sort=oldest", "before=2026-12-31"))


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("after=yesterday", 422),
        ("scope=a//b", 422),
        ("least_origin=everybody", 422),
        ("verdict=MAYBE", 422),
        ("sort=none", 422),
        ("cursor=zz", 400),
        ("cursor=61", 400),
        ("within=standfast", 403),
        ("within=elsewhere", 200),
        ("begin=-5", 200),
        ("begin=99999", 200),
    ],
)
def test_a_search_that_can_not_be_made_says_why(server: SampleServer, address: str, status: int) -> None:
    with browser_client(server, server.operator) as client:
        answer = client.get(f"/console/search?{address}")

    assert answer.status_code == status


def test_an_agent_does_not_see_rejected_content_on_any_page(tmp_path: Path) -> None:
    """Neither in a list, nor by its id, nor by a recall from the band."""
    with sample_server(tmp_path, memory_only=True) as server, browser_client(server, server.agent) as agent:
        (kept,) = found_by(server, verdict="VOID").hits
        answers = [
            agent.get("/console/search?band=VOID"),
            agent.get("/console/playground?q=deploy"),
            agent.get(f"/console/record?id={kept.name}"),
            agent.get("/console/search?verdict=VOID"),
            agent.get("/console/search?q=redacted"),
        ]

    assert [answer.status_code for answer in answers] == [200, 200, 404, 200, 200]
    assert not [answer for answer in answers if "redacted" in words_of(answer).replace("q=redacted", "")]
