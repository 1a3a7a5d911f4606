"""Where a grid's units are done: in this process, in several, or on a Dask cluster. Results are the same to the byte."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from standfast.bench.grid import Grid, Unit, run_unit
from standfast.errors import BadFile, MissingExtra

Engine = Callable[[Grid, Sequence[Unit]], Iterator[tuple[Unit, bytes]]]


def here(grid: Grid, units: Sequence[Unit]) -> Iterator[tuple[Unit, bytes]]:
    """One after the other, in this process."""
    for unit in units:
        yield unit, run_unit(grid, unit)


def processes(workers: int | None = None) -> Engine:
    """In several processes, by default one a core. Each holds one episode at a time."""
    count = workers or _cores()

    def run(grid: Grid, units: Sequence[Unit]) -> Iterator[tuple[Unit, bytes]]:
        if count == 1 or len(units) < 2:
            yield from here(grid, units)
            return
        # Spawned, not forked: a fork copies whatever threads and locks the caller has.
        pool = ProcessPoolExecutor(
            max_workers=min(count, len(units)), mp_context=get_context("spawn"), initializer=_leave_interrupts
        )
        try:
            yield from _as_they_come(lambda unit: pool.submit(run_unit, grid, unit), units, 2 * count)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    return run


def dask(scheduler: str, *, wait_seconds: float = 10.0) -> Engine:
    """On a Dask cluster. Episodes travel with their units, so that workers need no files of ours."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingExtra(feature="The dask engine", extra="dask") from None

    def run(grid: Grid, units: Sequence[Unit]) -> Iterator[tuple[Unit, bytes]]:
        try:
            client = distributed.Client(scheduler, timeout=wait_seconds, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BadFile(file=scheduler, problem=f"no Dask scheduler answers there: {error}") from None
        with client:
            waiting = iter(units)
            room = 2 * max(1, sum(client.nthreads().values()))
            under_way = {}
            done = distributed.as_completed(loop=client.loop)
            for unit in waiting:
                future = client.submit(run_unit, grid, _carried(unit), pure=False)
                under_way[future.key] = unit
                done.add(future)
                if len(under_way) >= room:
                    break
            for future in done:
                yield under_way.pop(future.key), future.result()
                for unit in waiting:
                    more = client.submit(run_unit, grid, _carried(unit), pure=False)
                    under_way[more.key] = unit
                    done.add(more)
                    break

    return run


def _as_they_come(
    submit: Callable[[Unit], "Future[bytes]"], units: Sequence[Unit], room: int
) -> Iterator[tuple[Unit, bytes]]:
    """Results in the order in which they come, with no more units under way than there is room for."""
    waiting = iter(units)
    under_way: dict[Future[bytes], Unit] = {}
    exhausted = False
    while under_way or not exhausted:
        while not exhausted and len(under_way) < room:
            unit = next(waiting, None)
            if unit is None:
                exhausted = True
            else:
                under_way[submit(unit)] = unit
        finished, _ = wait(under_way, return_when=FIRST_COMPLETED)
        for future in finished:
            yield under_way.pop(future), future.result()


def _leave_interrupts() -> None:
    """Ctrl-C reaches workers too; their parent is the one who tells of it, and what is under way is finished."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _cores() -> int:
    """The cores that this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _carried(unit: Unit) -> Unit:
    with Path(unit.place.file).open("rb") as lines:
        lines.seek(unit.place.offset)
        return msgspec.structs.replace(unit, line=lines.read(unit.place.size))
