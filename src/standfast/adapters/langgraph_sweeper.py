"""The thread that erases expired items of a LangGraph store, time and again."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, suppress
from typing import Final

from standfast.errors import InvalidValue

DEFAULT_SWEEP_MINUTES: Final = 5.0
_log: Final = logging.getLogger("standfast.adapters")


class TtlSweeper:
    """Calls ``sweep`` in a thread, at intervals, until it is stopped. There is at most one thread.

    Args:
        sweep: Erases what has expired, and returns how many items that were. If it fails, that is logged, and it is called again after
            the next interval.
        at_close: Stops the thread when the memory is closed.
    """

    def __init__(self, sweep: Callable[[], int], *, at_close: ExitStack) -> None:
        self._sweep = sweep
        self._at_close = at_close
        self._lock = threading.Lock()
        self._current: _Sweeping | None = None

    def start(self, minutes: float) -> Future[None]:
        """Start the thread if it does not run. The future is done when it ends; to cancel the future stops it as well."""
        if not minutes > 0:
            problem = f"it must be a number of minutes above 0, not {minutes!r:.40}"
            raise InvalidValue(what="sweep_interval_minutes", problem=problem)
        with self._lock:
            current = self._current
            if current is None:
                self._at_close.callback(self.stop)
            elif current.stopping.is_set():
                # It was told to stop, and only finishes its last sweep.
                current.thread.join()
                current = None
            if current is None:
                current = self._current = _Sweeping(self._sweep, min(minutes * 60, threading.TIMEOUT_MAX))
                current.thread.start()
            return current.future

    def stop(self, timeout: float | None = None) -> bool:
        """Stop the thread, and wait for a sweep that is under way. False if that takes more than ``timeout`` seconds."""
        with self._lock:
            current = self._current
        if current is None:
            return True
        current.stopping.set()
        current.thread.join(timeout)
        return not current.thread.is_alive()


class _Sweeping:
    """One thread that sweeps."""

    def __init__(self, sweep: Callable[[], int], seconds: float) -> None:
        self._sweep = sweep
        self._seconds = seconds
        self.stopping = threading.Event()
        self.future: Future[None] = Future()
        self.future.add_done_callback(lambda _: self.stopping.set())
        self.thread = threading.Thread(target=self._run, name="standfast-ttl-sweeper", daemon=True)

    def _run(self) -> None:
        while not self.stopping.wait(self._seconds):
            try:
                if count := self._sweep():
                    _log.info("Erased %d expired LangGraph items.", count)
            except Exception:  # noqa: BLE001  # Whatever failed, later items expire as well.
                _log.exception("Expired LangGraph items could not be erased. The next sweep tries again.")
        # A future that was cancelled is done already.
        with suppress(InvalidStateError):
            self.future.set_result(None)
