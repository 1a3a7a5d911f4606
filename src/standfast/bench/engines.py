"""Where the units of a grid run: in this process, in several, or on a Dask cluster. The results are the same to the byte."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from importlib import import_module
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from standfast.bench.grid import Grid, GridUnit, run_unit
from standfast.errors import BadFile, MissingExtra

Engine = Callable[[Grid, Sequence[GridUnit]], Iterator[tuple[GridUnit, bytes]]]


def in_process(grid: Grid, units: Sequence[GridUnit]) -> Iterator[tuple[GridUnit, bytes]]:
    """Run units one after the other in this process."""
    for unit in units:
        yield unit, run_unit(grid, unit)


def process_pool(workers: int | None = None) -> Engine:
    """Return an engine that runs units in several processes, by default one per core. Each holds one episode at a time."""
    count = workers or usable_cores()

    def run(grid: Grid, units: Sequence[GridUnit]) -> Iterator[tuple[GridUnit, bytes]]:
        if count == 1 or len(units) < 2:
            yield from in_process(grid, units)
            return
        # Spawned, not forked: a fork would copy the caller's threads and locks.
        pool = ProcessPoolExecutor(
            max_workers=min(count, len(units)),
            mp_context=get_context("spawn"),
            initializer=_ignore_interrupts,
        )
        try:
            yield from _as_completed(lambda unit: pool.submit(run_unit, grid, unit), units, 2 * count)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    return run


def dask_cluster(scheduler: str, *, wait_seconds: float = 10.0) -> Engine:
    """Return an engine that runs units on a Dask cluster. Episodes are sent along, so workers need no files."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingExtra(feature="The dask engine", extra="dask") from None

    def run(grid: Grid, units: Sequence[GridUnit]) -> Iterator[tuple[GridUnit, bytes]]:
        try:
            client = distributed.Client(scheduler, timeout=wait_seconds, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BadFile(file=scheduler, problem=f"no Dask scheduler answers there: {error}") from None
        with client:
            under_way = {}
            waiting = iter(units)
            completed = distributed.as_completed(loop=client.loop)

            def submit(count: int) -> None:
                for unit in islice(waiting, count):
                    future = client.submit(run_unit, grid, _with_line(unit), pure=False)
                    under_way[future.key] = unit
                    completed.add(future)

            submit(2 * max(1, sum(client.nthreads().values())))
            for future in completed:
                yield under_way.pop(future.key), future.result()
                submit(1)

    return run


def _as_completed(
    submit: Callable[[GridUnit], "Future[bytes]"], units: Sequence[GridUnit], most: int
) -> Iterator[tuple[GridUnit, bytes]]:
    """Yield results in the order in which they finish, with at most ``most`` units under way."""
    waiting = iter(units)
    under_way = {submit(unit): unit for unit in islice(waiting, most)}
    while under_way:
        finished, _ = wait(under_way, return_when=FIRST_COMPLETED)
        for future in finished:
            yield under_way.pop(future), future.result()
        under_way |= {submit(unit): unit for unit in islice(waiting, most - len(under_way))}


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent process, which reports it; units under way are finished."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def usable_cores() -> int:
    """Return the number of cores that this process may use; in a container, fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _with_line(unit: GridUnit) -> GridUnit:
    with Path(unit.location.file).open("rb") as lines:
        lines.seek(unit.location.offset)
        return msgspec.structs.replace(unit, line=lines.read(unit.location.size))
