"""The gateway and what the operations share: authentication, limits, the memories of namespaces, pages."""

import contextlib
from pathlib import Path

import pytest

from standfast.clock import ManualClock
from standfast.errors import (
    AccessError,
    Forbidden,
    InvalidValue,
    Overloaded,
    RateLimited,
    Unauthenticated,
)
from standfast.limits import (
    MAX_NAMESPACES_HELD,
    MAX_OPEN_RUNS_OF_KEY,
    MAX_PAGE_BYTES,
    MAX_RECALL_TOKENS,
    MAX_RUN_BYTES,
    MAX_RUN_ITEMS,
    MAX_RUNS_HELD,
)
from standfast.records.requests import RememberRequest
from standfast.records.vocabulary import Band, VisibilityMode
from standfast.server.access.permissions import ROLES_OF_PERMISSION, Caller, KeyRole, Permission
from standfast.server.http.open_runs import OpenRuns
from standfast.server.operations.gateway import Gateway
from standfast.server.operations.memory_operations import (
    list_records,
    recall,
    recall_batch,
    remember,
    remember_batch,
)
from standfast.server.operations.schemas import (
    ForgetInRunBody,
    OpenRunBody,
    RecallBatchBody,
    RecallBody,
    RecordsQuery,
    RememberBatchBody,
    decode_name,
    decode_number,
    decode_place,
    encode_cursor,
    paginate,
)
from tests.raising import raises_code
from tests.server.harness import HANDBOOK, Harness, make_gateway

ROOT = Caller(key_id="root", name="root", role=KeyRole.OPERATOR, namespaces=("*",))


def _page(items: list[int], limit: int, size_bytes: int = 0) -> tuple[list[int], str | None]:
    return paginate(items, limit=limit, size=lambda _: size_bytes, position=lambda item: item)


def test_a_page_has_at_most_its_limit_and_names_its_last_item() -> None:
    assert _page([1, 2, 3], 2) == ([1, 2], encode_cursor(2))
    assert _page([1, 2], 2) == ([1, 2], None)
    assert _page([1], 2) == ([1], None)
    assert _page([], 2) == ([], None)


def test_a_page_has_a_bounded_size_and_at_least_one_item() -> None:
    assert _page([1, 2, 3], 9, MAX_PAGE_BYTES // 2) == ([1, 2], encode_cursor(2))
    assert _page([1, 2, 3], 9, MAX_PAGE_BYTES // 2 + 1) == ([1], encode_cursor(1))
    assert _page([1, 2, 3], 9, MAX_PAGE_BYTES * 2) == ([1], encode_cursor(1))


def test_a_cursor_is_read_as_what_it_was() -> None:
    assert decode_number(encode_cursor(17)) == 17
    assert decode_name(encode_cursor("é\udcff")) == "é\udcff"
    assert decode_place(encode_cursor((3, "LEDGER/é"))) == (3, "LEDGER/é")
    assert (decode_number(None), decode_name(None), decode_place(None)) == (0, "", (0, ""))


def test_failed_attempts_are_limited_by_peer_and_valid_keys_by_key(tmp_path: Path) -> None:
    clock = ManualClock()
    gateway = make_gateway(tmp_path / "store.db", calls_per_second=1, failed_calls_per_second=1, clock=clock)
    _, token = gateway.keyring.create(name="bot", role="agent", namespaces=["a"])
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            gateway.authenticate("sf_wrong", peer="attacker")
    with pytest.raises(RateLimited):
        gateway.authenticate("sf_wrong", peer="attacker")
    caller = gateway.authenticate(token, peer="attacker")
    gateway.authenticate(token, peer="attacker")
    with pytest.raises(RateLimited):
        gateway.authenticate(token, peer="attacker")
    with pytest.raises(RateLimited):
        gateway.authenticate_session(caller.key_id)
    with pytest.raises(Unauthenticated):
        gateway.authenticate("sf_wrong", peer="another")
    clock.advance(1)

    assert gateway.authenticate_session(caller.key_id) == caller


def test_the_number_of_open_memories_is_bounded_and_the_default_one_stays(harness: Harness) -> None:
    gateway = harness.gateway
    first = gateway.authorize(ROOT, Permission.RECALL, "n0")
    for number in range(1, MAX_NAMESPACES_HELD - 1):
        gateway.authorize(ROOT, Permission.RECALL, f"n{number}")
    kept = gateway.authorize(ROOT, Permission.RECALL, "n0")
    gateway.authorize(ROOT, Permission.RECALL, "one more")

    assert kept is first
    assert len(gateway._memories) == MAX_NAMESPACES_HELD
    assert gateway.authorize(ROOT, Permission.RECALL, "n0") is first
    assert gateway.authorize(ROOT, Permission.RECALL, gateway.home.namespace) is gateway.home


@pytest.mark.parametrize("namespace", ["", "x" * 257, "line\nbreak", "e\u0301"])
def test_a_namespace_has_a_printable_normal_name(harness: Harness, namespace: str) -> None:
    with pytest.raises(InvalidValue, match="namespace"):
        harness.gateway.authorize(ROOT, Permission.RECALL, namespace)


def test_permissions_are_checked_before_a_memory_is_opened(harness: Harness) -> None:
    agent = Caller(key_id="a", name="a", role=KeyRole.AGENT, namespaces=("own",))
    with pytest.raises(Forbidden):
        harness.gateway.authorize(agent, Permission.RECALL, "foreign")
    with pytest.raises(Forbidden):
        harness.gateway.authorize_store(agent, Permission.LEDGER)

    assert list(harness.gateway._memories) == [harness.gateway.home.namespace]


def test_one_verification_runs_at_a_time(harness: Harness) -> None:
    with harness.gateway.verifying(), pytest.raises(Overloaded), harness.gateway.verifying():
        pass
    with harness.gateway.verifying():
        pass


def test_only_agents_are_kept_from_deciding(harness: Harness) -> None:
    for role in KeyRole:
        harness.token(role, name=f"the {role}")

    assert harness.gateway.agents() == {"the agent"}


@pytest.fixture
def runs(harness: Harness) -> OpenRuns:
    return OpenRuns(harness.gateway)


def _open(runs: OpenRuns) -> str:
    body = OpenRunBody(workflow="triage", mode=VisibilityMode.BUFFERED_WRITE)
    return runs.open(ROOT, "default", body, None).run_id


def test_an_open_run_holds_a_bounded_number_of_items(
    harness: Harness, runs: OpenRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standfast.server.http.open_runs.MAX_RUN_ITEMS", 2)
    body = RememberRequest(text="EU refunds take 14 days.", subject="refunds", source=HANDBOOK)
    remember(harness.gateway, ROOT, "default", body)
    run_id = _open(runs)
    runs.remember(ROOT, "default", run_id, RememberRequest(text="VAT is 19 %.", source=HANDBOOK))
    runs.forget(ROOT, "default", run_id, ForgetInRunBody(subject="refunds", reason="asked to"))
    with pytest.raises(InvalidValue, match="commit it and open another"):
        runs.remember(ROOT, "default", run_id, body)
    shown = runs.show(ROOT, "default", run_id)

    assert (shown.remembered, shown.forgotten) == (1, 1)
    assert MAX_RUN_ITEMS > 2


def test_an_open_run_holds_a_bounded_number_of_bytes(runs: OpenRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("standfast.server.http.open_runs.MAX_RUN_BYTES", 10)
    run_id = _open(runs)
    runs.remember(ROOT, "default", run_id, RememberRequest(text="é" * 5, source=HANDBOOK))
    with pytest.raises(InvalidValue, match="commit it and open another"):
        runs.remember(ROOT, "default", run_id, RememberRequest(text="x", source=HANDBOOK))

    assert MAX_RUN_BYTES > 10


def _batch(count: int, first: int = 0) -> RememberBatchBody:
    texts = [f"Shelf {n} holds crate {n * 37}." for n in range(first, first + count)]
    return RememberBatchBody(items=tuple(RememberRequest(text=text, source=HANDBOOK) for text in texts))


def test_a_batch_is_bounded_and_commits_once(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("standfast.server.operations.memory_operations.MAX_RUN_ITEMS", 2)
    gateway: Gateway = harness.gateway
    with pytest.raises(InvalidValue, match="send fewer"):
        remember_batch(gateway, ROOT, "default", _batch(3))
    response = remember_batch(gateway, ROOT, "default", _batch(2))

    assert [item.verdict for item in response.items] == ["SEAL", "SEAL"]
    assert response.receipt is not None
    assert gateway.store.head() == response.receipt.memory_snapshot_id == 1


def test_a_batch_under_a_request_key_has_one_effect(harness: Harness) -> None:
    first, again = (
        remember_batch(harness.gateway, ROOT, "default", _batch(3), request_key="k") for _ in range(2)
    )
    with raises_code("request_reused"):
        remember_batch(harness.gateway, ROOT, "default", _batch(2), request_key="k")

    assert first.receipt is not None
    assert again.receipt is not None
    assert (first.receipt.replayed, again.receipt.replayed) == (False, True)
    assert again.items == first.items
    assert harness.gateway.store.head() == 1


def test_a_batch_that_proposes_needs_that_permission(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ROLES_OF_PERMISSION, Permission.PROPOSE, frozenset({KeyRole.OPERATOR}))
    agent = Caller(key_id="bot", name="bot", role=KeyRole.AGENT, namespaces=("*",))
    plain = RememberRequest(text="Ada likes tea.", source=HANDBOOK)
    proposal = RememberRequest(text="Tea is free.", source=HANDBOOK, propose=True)
    remember_batch(harness.gateway, agent, "default", RememberBatchBody(items=(plain,)))
    with pytest.raises(Forbidden):
        remember_batch(harness.gateway, agent, "default", RememberBatchBody(items=(plain, proposal)))

    assert harness.gateway.store.head() == 1


def test_a_recall_reads_only_bands_that_the_key_may_read(harness: Harness, runs: OpenRuns) -> None:
    agent = Caller(key_id="bot", name="bot", role=KeyRole.AGENT, namespaces=("*",))
    gateway, run_id = harness.gateway, runs.open(agent, "default", OpenRunBody(workflow="w"), None).run_id
    rejected = RecallBody(query="refunds", bands=(Band.LEDGER, Band.VOID))

    for ask in (
        lambda: recall(gateway, agent, "default", rejected),
        lambda: recall_batch(gateway, agent, "default", RecallBatchBody(items=(rejected,))),
        lambda: runs.recall(agent, "default", run_id, rejected),
    ):
        with pytest.raises(Forbidden, match="band VOID"):
            ask()
    assert recall(gateway, ROOT, "default", rejected).selected == []


def test_proposals_are_no_band_for_any_key(harness: Harness) -> None:
    """The advice of a refusal is not to look for a key that may read them."""
    for ask in (
        lambda: recall(harness.gateway, ROOT, "default", RecallBody(query="x", bands=(Band.PHOENIX,))),
        lambda: list_records(harness.gateway, ROOT, "default", RecordsQuery(band=Band.PHOENIX)),
    ):
        with pytest.raises(InvalidValue, match="approvals list"):
            ask()


def test_nobody_says_over_a_wire_that_they_are_human(harness: Harness, runs: OpenRuns) -> None:
    human = RememberRequest(text="Ada likes tea.", role="human")

    for say in (
        lambda: remember(harness.gateway, ROOT, "default", human),
        lambda: remember_batch(harness.gateway, ROOT, "default", RememberBatchBody(items=(human,))),
        lambda: runs.remember(ROOT, "default", _open(runs), human),
    ):
        with pytest.raises(InvalidValue, match="the key says who asks"):
            say()


def test_a_batch_of_recalls_reads_one_snapshot_within_one_budget(harness: Harness) -> None:
    gateway = harness.gateway
    remember_batch(gateway, ROOT, "default", _batch(2))
    remember_batch(gateway, ROOT, "default", _batch(2, first=5))
    queries = (
        RecallBody(query="shelf 6", tokens=100),
        RecallBody(query="shelf 6", tokens=100, at=1),
        RecallBody(query="shelf 1", tokens=100),
    )
    found = recall_batch(gateway, ROOT, "default", RecallBatchBody(items=queries)).items
    half = RecallBody(query="shelf", tokens=MAX_RECALL_TOKENS // 2 + 1)
    with pytest.raises(InvalidValue, match="send fewer queries"):
        recall_batch(gateway, ROOT, "default", RecallBatchBody(items=(half, half)))

    assert [one.memory_snapshot_id for one in found] == [2, 1, 2]
    assert ["Shelf 6" in one.text for one in found] == [True, False, True]
    assert found[0].selected[0]["excerpt"].startswith("Shelf 6")


def test_a_request_key_belongs_to_a_caller_and_a_namespace(harness: Harness) -> None:
    body = RememberRequest(text="EU refunds take 14 days.", source=HANDBOOK)
    other = Caller(key_id="other", name="other", role=KeyRole.OPERATOR, namespaces=("*",))
    answers = [
        remember(harness.gateway, caller, namespace, body, request_key="k")
        for caller, namespace in ((ROOT, "a"), (ROOT, "a"), (ROOT, "b"), (other, "c"))
    ]
    receipts = [answer.receipt for answer in answers if answer.receipt is not None]

    assert [receipt.replayed for receipt in receipts] == [False, True, False, False]
    assert receipts[0].commit_id == receipts[1].commit_id
    assert len({receipt.commit_id for receipt in receipts}) == 3


def test_greedy_keys_leave_room_for_others(tmp_path: Path) -> None:
    """Each key has runs of its own. What does not fit in memory is read again from the store."""
    gateway = make_gateway(tmp_path / "store.db")
    runs, body = OpenRuns(gateway), OpenRunBody(workflow="triage", mode=VisibilityMode.BUFFERED_WRITE)
    keys = [Caller(key_id=f"key-{n}", name="bot", role=KeyRole.AGENT, namespaces=("*",)) for n in range(6)]
    opened: list[str] = []
    for greedy in keys:
        with contextlib.suppress(AccessError):
            opened.extend(
                runs.open(greedy, "default", body, None).run_id for _ in range(MAX_OPEN_RUNS_OF_KEY)
            )
            runs.open(greedy, "default", body, None)

    assert len(opened) == len(keys) * MAX_OPEN_RUNS_OF_KEY
    assert len(runs) == MAX_RUNS_HELD
    assert runs.show(keys[0], "default", opened[0]).run_id == opened[0]
    runs.discard(keys[0], "default", opened[0])
    assert runs.open(keys[0], "default", body, None).remembered == 0
