"""Clocks and ids that can be handed in."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from standfast.clock import CountedIds, ManualClock, RandomIds, SystemClock, seeded


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))))
    clock.sleep(90)

    assert clock.now() == datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC)
    assert clock.monotonic() == 90


def test_stepping_the_wall_clock_leaves_the_monotonic_clock_alone() -> None:
    clock = ManualClock()
    clock.set_wall(datetime(2020, 1, 1, tzinfo=UTC))

    assert clock.now() == datetime(2020, 1, 1, tzinfo=UTC)
    assert clock.monotonic() == 0


def test_a_manual_clock_refuses_to_go_back_or_to_be_naive() -> None:
    with pytest.raises(ValueError, match="can't go back"):
        ManualClock().advance(-1)
    with pytest.raises(ValueError, match="aware"):
        ManualClock(datetime(2026, 1, 1))  # noqa: DTZ001  # The naive datetime is what is tested.


def test_the_system_clock_is_in_utc_and_moves_on() -> None:
    clock = SystemClock()
    start = clock.monotonic()
    clock.sleep(0.001)

    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() > start


def test_ids_have_one_shape_and_never_repeat() -> None:
    counted, random_ids = CountedIds(), RandomIds()
    ids = [counted.new_id() for _ in range(100)] + [random_ids.new_id() for _ in range(100)]

    assert len(set(ids)) == 200
    assert all(len(new) == 32 and set(new) <= set("0123456789abcdef") for new in ids)
    assert ids[:2] == [f"{1:032x}", f"{2:032x}"]


def test_a_seed_determines_the_stream() -> None:
    assert [seeded(7).random() for _ in range(2)] == [0.32383276483316237, 0.32383276483316237]
