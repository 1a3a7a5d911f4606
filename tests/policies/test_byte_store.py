"""The budgeted store applies actions as the document defines them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast import ActionType, InvalidValue, MemoryAction, Step
from standfast.limits import MAX_BUDGET_BYTES
from standfast.policies.byte_model import ByteModel, Compression, PriceList, compressed_bytes, estimate_bytes
from standfast.policies.byte_store import ByteBudget, ByteMemoryStore, Rejection
from standfast.policies.write_policy import expire, merge, write


def _step(t: int, api: str | None = "a", **fields: Any) -> Step:
    return Step(t=t, observation={**({"api": api} if api else {}), **fields}, metadata={})


def _write(step: Step) -> MemoryAction:
    return MemoryAction(action=ActionType.WRITE, step=step)


def _merge(step: Step, target_t: int, delta: dict[str, Any] | None = None) -> MemoryAction:
    return MemoryAction(action=ActionType.MERGE, step=step, target_t=target_t, delta=delta)


def _expire(target_t: int) -> MemoryAction:
    return MemoryAction(action=ActionType.EXPIRE, target_t=target_t)


def _store(max_bytes: int = 1_000) -> ByteMemoryStore:
    return ByteMemoryStore(ByteBudget(max_bytes))


def _refusal(store: ByteMemoryStore, action: MemoryAction, now: Step | None = None) -> Rejection | None:
    used, held = store.budget.used_bytes, list(store.items())
    accepted = store.apply(action, now=now)
    assert accepted == (store.rejection is None)
    if not accepted:
        assert (store.budget.used_bytes, list(store.items())) == (used, held), "a refusal changes nothing"
    return store.rejection


def test_a_write_uses_its_bytes_and_an_expiry_frees_them() -> None:
    store, step = _store(), _step(0)

    assert store.apply(_write(step), now=step)
    assert store.budget.used_bytes == estimate_bytes(step)
    assert store.apply(_expire(0), now=_step(1))
    assert store.budget.used_bytes == 0
    assert len(store) == 0


def test_a_write_that_does_not_fit_is_refused_and_one_that_just_fits_is_not() -> None:
    step = _step(0, text="x" * 50)
    cost = estimate_bytes(step)

    assert _refusal(_store(cost - 1), _write(step)) is Rejection.OVER_BUDGET
    assert _refusal(_store(cost), _write(step)) is None


def test_a_timestep_is_stored_once() -> None:
    store = _store()
    store.apply(_write(_step(0)))

    assert _refusal(store, _write(_step(0))) is Rejection.ALREADY_HELD
    assert _refusal(store, _merge(_step(0, v=2), 0)) is Rejection.ALREADY_HELD


def test_a_merge_stores_the_delta_for_its_bytes_and_sixteen() -> None:
    store = _store()
    store.apply(_write(_step(0, v=1, params=["x"])))
    before = store.budget.used_bytes

    assert _refusal(store, _merge(_step(3, v=2, params=["x"]), 0, {"v": 2})) is None
    assert store.budget.used_bytes == before + len('{"v": 2}') + 16
    item = store.item_at(3)
    assert item is not None
    assert (item.step.observation, item.merge_parent_t, item.api) == ({"v": 2}, 0, "a")
    assert list(store.deltas_of(0)) == [3]
    assert store.retained() == {0, 3}


def test_merges_that_the_document_forbids_are_refused() -> None:
    store = _store()
    for step in (_step(0, v=1), _step(1, "b", v=1), _step(2, None, v=1), Step(t=3, observation="text")):
        store.apply(_write(step))
    store.apply(_merge(_step(4, v=2), 0))
    new = _step(9, v=3)

    assert _refusal(store, _merge(new, 8)) is Rejection.NOT_HELD
    assert _refusal(store, _merge(new, 4)) is Rejection.NOT_A_BASE
    assert _refusal(store, _merge(new, 1)) is Rejection.OTHER_ENDPOINT
    assert _refusal(store, _merge(new, 2)) is Rejection.OTHER_ENDPOINT
    assert _refusal(store, _merge(new, 3)) is Rejection.OTHER_ENDPOINT
    assert _refusal(store, _merge(Step(t=9, observation="text"), 3)) is Rejection.OTHER_ENDPOINT
    assert _refusal(store, _merge(_step(9, v=1), 0)) is Rejection.NO_CHANGE
    assert _refusal(store, _merge(new, 0, {"v": 4})) is Rejection.WRONG_DELTA
    assert _refusal(store, _merge(new, 0, {"v": 3, "api": "a"})) is Rejection.WRONG_DELTA
    assert _refusal(store, _merge(new, 0, {})) is Rejection.WRONG_DELTA
    assert _refusal(store, _merge(new, 0, {"v": 3})) is None


def test_a_delta_whose_base_expired_is_not_retained_but_still_costs() -> None:
    store = _store()
    store.apply(_write(_step(0, v=1)))
    store.apply(_merge(_step(1, v=2), 0))
    store.apply(_expire(0))

    assert store.retained() == set()
    assert store.budget.used_bytes == len('{"v": 2}') + 16
    assert _refusal(store, _merge(_step(2, v=3), 1)) is Rejection.NOT_A_BASE


def test_only_stored_and_older_items_can_expire() -> None:
    store, now = _store(), _step(1)
    store.apply(_write(now), now=now)

    assert _refusal(store, _expire(1), now=now) is Rejection.NOT_OLDER
    assert _refusal(store, _expire(7), now=now) is Rejection.NOT_HELD
    assert _refusal(store, _expire(1), now=_step(2)) is None


def test_a_cheaper_step_can_not_be_stored_in_place_of_the_one_shown() -> None:
    store, shown = _store(), _step(5, text="x" * 100)
    store.apply(_write(_step(0, text="")))

    assert _refusal(store, _write(_step(5)), now=shown) is Rejection.NOT_THIS_STEP
    assert _refusal(store, _merge(_step(5), 0), now=shown) is Rejection.NOT_THIS_STEP
    assert _refusal(store, _write(_step(4)), now=shown) is Rejection.NOT_THIS_STEP


def test_shrinking_the_shown_step_in_place_does_not_make_it_cheaper() -> None:
    store, shown = _store(), _step(5, text="x" * 100)
    price = store.cost_of(shown)
    shown.observation["text"] = ""

    assert store.apply(_write(shown), now=shown)
    assert store.budget.used_bytes == price


def test_offer_returns_the_write_of_a_step_that_fits() -> None:
    step, longer = _step(0), _step(1, text="x" * 100)
    store = _store(estimate_bytes(step))

    assert store.offer(step) == (_write(step),)
    assert store.offer(step) is store.priced(step).write_actions, "it is made once"
    assert store.offer(longer) == ()
    assert store.priced(longer).byte_cost == estimate_bytes(longer)


def test_a_delta_is_not_stored_on_a_base_that_expired() -> None:
    store, now = _store(), _step(1, v=2)
    store.apply(_write(_step(0, v=1)))
    delta = store.delta_for(now)
    store.apply(_expire(0), now=now)

    assert delta is not None
    assert _refusal(store, _merge(now, 0), now=now) is Rejection.NOT_HELD

    store.apply(_write(_step(0, api="b", v=1)))

    assert _refusal(store, _merge(now, 0), now=now) is Rejection.OTHER_ENDPOINT


def test_the_newest_base_of_an_endpoint_is_found_whatever_has_expired() -> None:
    store = _store()
    for t in range(4):
        store.apply(_write(_step(t, v=t)))
    for expired, newest in ((3, 2), (0, 2), (2, 1)):
        store.apply(_expire(expired))
        base = store.newest_base("a")
        assert base is not None
        assert base.step.t == newest
    store.apply(_expire(1))

    assert store.newest_base("a") is None
    assert store.oldest_item() is None


def test_a_delta_and_an_item_without_endpoint_are_never_the_newest_base() -> None:
    store = _store()
    for action in (_write(_step(0, v=1)), _merge(_step(1, v=2), 0), _write(_step(2, None, v=3))):
        assert store.apply(action)
    base = store.newest_base("a")

    assert base is not None
    assert base.step.t == 0
    assert [t in store for t in (0, 1, 2, 3)] == [True, True, True, False]


def test_stores_that_share_a_budget_use_the_same_bytes() -> None:
    budget = ByteBudget(estimate_bytes(_step(0)) + 1)
    left, right = ByteMemoryStore(budget), ByteMemoryStore(budget)

    assert left.apply(_write(_step(0)))
    assert _refusal(right, _write(_step(0))) is Rejection.OVER_BUDGET
    left.apply(_expire(0))
    assert right.apply(_write(_step(0)))
    assert (left.held_bytes, right.held_bytes) == (0, budget.used_bytes)


def test_a_budget_counts_what_is_used_to_the_byte() -> None:
    budget = ByteBudget(10)

    assert budget.consume(10)
    assert (budget.used_bytes, budget.remaining()) == (10, 0)
    assert budget.consume(0)
    assert not budget.consume(1)
    budget.credit(4)
    assert (budget.used_bytes, budget.remaining()) == (6, 4)
    assert not budget.consume(5)
    assert repr(budget) == "ByteBudget(6 of 10 bytes used)"
    assert ByteBudget(MAX_BUDGET_BYTES).remaining() == MAX_BUDGET_BYTES


def test_only_answers_that_depend_on_the_budgets_size_are_marked() -> None:
    first, second = _step(0, v=1), _step(1, v=2)
    cost = estimate_bytes(first)

    store = _store(cost)
    assert store.offer(first)
    assert store.fits(first)
    assert store.has_room(cost)
    assert store.apply(_write(first))
    marks = [store.limit_felt]
    assert not store.has_room(1)
    assert [*marks, store.limit_felt] == [False, True]

    for refused in (_write(second), _merge(second, 0)):
        store = _store(cost)
        store.apply(_write(first))
        assert not store.apply(refused)
        assert store.limit_felt

    store = _store(cost)
    assert store.budget.max_bytes == cost
    assert store.limit_felt


def test_a_fork_holds_the_same_and_changes_alone() -> None:
    store = _store()
    store.apply(_write(_step(0, v=1)))
    store.apply(_merge(_step(1, v=2), 0))
    fork = store.fork()

    assert list(fork.items()) == list(store.items())
    assert (fork.held_bytes, fork.retained(), fork.limit_felt) == (store.held_bytes, {0, 1}, False)
    assert fork.budget.used_bytes == store.held_bytes
    assert fork.limit_felt
    assert fork.fork().limit_felt
    assert fork.apply(_merge(_step(2, v=33), 0))
    assert fork.apply(_expire(1))
    assert (list(store.deltas_of(0)), list(fork.deltas_of(0))) == ([1], [2])
    assert store.budget.used_bytes == store.held_bytes != fork.held_bytes


def test_an_orphan_costs_its_bytes_and_is_not_retained() -> None:
    store = _store(100)
    store.add_orphan(_step(7, v=1), parent_t=3, byte_cost=40)
    item = store.item_at(7)

    assert item is not None
    assert (item.step.t, item.step.observation, item.merge_parent_t, item.written_at) == (7, {}, 3, 7)
    assert (store.held_bytes, store.budget.remaining(), store.retained()) == (40, 60, set())
    assert list(store.deltas_of(3)) == [7]
    assert store.apply(_expire(7))
    assert (store.held_bytes, store.budget.remaining(), len(store)) == (0, 100, 0)


def test_a_skip_is_accepted_and_clears_the_last_rejection() -> None:
    store = _store()
    assert not store.apply(_expire(3))

    assert store.apply(MemoryAction(action=ActionType.SKIP))
    assert store.rejection is None


@pytest.mark.parametrize("max_bytes", [0, -1, 1.5, True, "1KB", MAX_BUDGET_BYTES + 1])
def test_an_invalid_number_of_bytes_is_refused(max_bytes: Any) -> None:
    with pytest.raises(InvalidValue, match="max_bytes must be a whole number from 1"):
        ByteBudget(max_bytes)


STEPS = st.builds(
    _step,
    st.integers(0, 12),
    st.sampled_from(["a", "b", None]),
    v=st.integers(0, 2),
    text=st.sampled_from(["", "x" * 30]),
)
ACTIONS = st.one_of(
    st.builds(_write, STEPS),
    st.builds(_merge, STEPS, st.integers(0, 12), st.none() | st.just({"v": 1})),
    st.builds(_expire, st.integers(0, 12)),
    st.just(MemoryAction(action=ActionType.SKIP)),
)


@given(st.integers(1, 600), st.sampled_from(ByteModel), st.lists(ACTIONS, max_size=40))
def test_used_bytes_are_the_sum_of_all_items_and_never_over_budget(
    max_bytes: int, model: ByteModel, actions: list[MemoryAction]
) -> None:
    store = ByteMemoryStore(ByteBudget(max_bytes), prices=PriceList(model))
    for action in actions:
        _refusal(store, action)
        items = list(store.items())

        assert store.budget.used_bytes == store.held_bytes == sum(item.byte_cost for item in items)
        assert store.budget.used_bytes <= max_bytes
        assert len({item.step.t for item in items}) == len(items)
        assert store.oldest_item() == (items[0] if items else None)
        for api in ("a", "b"):
            bases = [item for item in items if item.api == api and item.merge_parent_t is None]
            assert store.newest_base(api) == (bases[-1] if bases else None)
        whole = {item.step.t: item.api for item in items if item.merge_parent_t is None}
        hung = {t for t in (i.step.t for i in items) if t not in whole}
        alive = {
            item.step.t
            for item in items
            if item.merge_parent_t is not None and whole.get(item.merge_parent_t) == item.api
        }
        assert store.retained() == set(whole) | alive
        assert {t for base in range(13) for t in store.deltas_of(base)} == hung


def test_compression_is_an_offer_that_the_store_prices() -> None:
    text = "the same words again " * 20
    first, second = (Step(t=t, observation={"api": "a", "content": f"{t} {text}"}) for t in (0, 1))
    store = ByteMemoryStore(ByteBudget(2_000), prices=PriceList(compression=Compression.OFFERED))
    plain = ByteMemoryStore(ByteBudget(2_000))

    assert store.apply(write(first, compress=True), first)
    assert store.held_bytes == compressed_bytes(first.observation) + 2 + 32
    assert store.held_bytes == store.compressed_cost(store.priced(first)) < store.cost_of(first)
    assert store.apply(merge(second, 0, compress=True), second)
    assert [item.is_compressed for item in store.items()] == [True, True]
    assert store.held_bytes == sum(item.byte_cost for item in store.items())
    assert store.retained() == {0, 1}
    assert store.apply(expire(0), Step(t=2, observation={}))
    assert not plain.offers_compression
    assert not plain.apply(write(first, compress=True), first)
    assert plain.rejection is Rejection.NOT_OFFERED
    assert plain.apply(write(first), first)
    assert not plain.apply(merge(second, 0, compress=True), second)
    assert plain.rejection is Rejection.NOT_OFFERED
    assert len(plain) == 1
