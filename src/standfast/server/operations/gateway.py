"""The gateway: authenticates callers, checks permissions, and is the only way to a ``Memory``."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Final, Self

from standfast.bench.settings import BenchSettings
from standfast.errors import InvalidValue, Overloaded, StandfastError, StoreError
from standfast.govern.approvals.signers import Signers
from standfast.limits import (
    CALLS_AT_ONCE,
    CALLS_PER_SECOND,
    FAILED_CALLS_AT_ONCE,
    FAILED_CALLS_PER_SECOND,
    MAX_MODEL_WAITS,
    MAX_NAME_CHARS,
    MAX_NAMESPACES_HELD,
    MIN_CALLS_PER_SECOND,
)
from standfast.memory import Memory
from standfast.memory.extraction_queue import namespaces_waiting
from standfast.optimize.opening import open_overrides
from standfast.optimize.prompts.overrides import PromptOverridesStore
from standfast.optimize.settings import PromptSettings
from standfast.records.canon import normal_string
from standfast.server.access.keys import Keyring
from standfast.server.access.permissions import Caller, KeyRole, Permission, require
from standfast.server.access.protection import AccessLog, RateLimiter, RefusedCall, is_refusal
from standfast.server.access.replicas import Replicas
from standfast.server.operations.call_history import CallHistory
from standfast.server.operations.telemetry import Histogram, NamespaceMetrics
from standfast.settings import Settings
from standfast.wiring import memory_in, open_memory, signers_of

_MEASURED_QUERY: Final = "What do I prefer?"
_MEASURED_CALLS: Final = 50
_MEASURED_SECONDS: Final = 0.2


class Gateway:
    """One store with the memories of its namespaces, its API keys and its access log.

    Safe to share between threads.

    Args:
        home: The memory of the default namespace. It also answers for the store as a whole.
        memory_in: Opens the memory of another namespace.
        signers: Reads the list of people whose signatures decide proposals.
        bench_results: The folder with the results of the benchmark, or "".
        overrides: Opens the store of prompt overrides, or None.
        calls_per_second: How many calls each key may make per second.
        failed_calls_per_second: How many calls with a wrong key each peer may make per second.
        has_replicas: Whether other processes may serve the same store and share the rate limits.
    """

    def __init__(
        self,
        home: Memory,
        *,
        memory_in: Callable[[str], Memory],
        signers: Callable[[], Signers],
        bench_results: str = "",
        overrides: Callable[[], PromptOverridesStore] | None = None,
        calls_per_second: float = CALLS_PER_SECOND,
        failed_calls_per_second: float = FAILED_CALLS_PER_SECOND,
        has_replicas: bool = False,
    ) -> None:
        self.home = home
        self.store = home.store
        self.keyring = Keyring(home.store)
        self.access_log = AccessLog(home.store)
        self.signers = signers
        self.bench_results = bench_results
        self.overrides = overrides
        self.clock = home.store.clock
        self._calls = RateLimiter(
            self.clock,
            per_second=calls_per_second,
            burst=max(1.0, calls_per_second * CALLS_AT_ONCE / CALLS_PER_SECOND),
        )
        self._failures = RateLimiter(
            self.clock,
            per_second=failed_calls_per_second,
            burst=max(1.0, failed_calls_per_second * FAILED_CALLS_AT_ONCE / FAILED_CALLS_PER_SECOND),
        )
        limiters = {"calls": self._calls, "failures": self._failures}
        self.replicas = (
            Replicas(home.store.temporary, home.store.worker_id, limiters) if has_replicas else None
        )
        self.metrics = NamespaceMetrics()
        self.call_history = CallHistory(self.clock)
        self.commit_seconds = Histogram("commit_seconds", "Duration of commits to the store.")
        home.store.on_commit = self.commit_seconds.observe
        self._memory_in = memory_in
        self._memories: OrderedDict[str, Memory] = OrderedDict({home.namespace: home})
        self._lock = threading.Lock()
        self._verifying = threading.Lock()
        self.model_waits = 0
        """How many calls wait for a model now."""

    @classmethod
    def open(
        cls, settings: Settings, *, create: bool, calls_per_second: float | None = CALLS_PER_SECOND
    ) -> Self:
        """Open the store that the settings name.

        Args:
            create: Whether a missing store is created.
            calls_per_second: The limit of each key; None measures what this process can serve.
        """
        home = open_memory(settings, create=create)
        if calls_per_second is None:
            calls_per_second = servable_per_second(home)
        at = settings.section(PromptSettings).overrides
        return cls(
            home,
            memory_in=lambda namespace: memory_in(settings, home.store, namespace),
            signers=lambda: signers_of(settings),
            bench_results=settings.section(BenchSettings).results,
            overrides=cache(lambda: open_overrides(at)) if at else None,
            calls_per_second=calls_per_second,
            has_replicas=home.store.is_shared,
        )

    def authenticate(self, token: str | None, *, peer: str) -> Caller:
        """Return the caller that a token belongs to, and count the call against the key's rate limit.

        Failed attempts are rate-limited by peer. Callers with a valid key are never affected by that limit.
        """
        try:
            caller = self.keyring.authenticate(token)
        except StandfastError:
            self._failures.take(peer)
            raise
        self._calls.take(caller.key_id)
        return caller

    def known_caller(self, token: str) -> Caller | None:
        """Return the caller of a token if nothing must be read for it, and count the call.

        The key may have been revoked since; ``Keyring.caller_of`` tells.
        """
        caller = self.keyring.known_caller(token)
        if caller is not None:
            self._calls.take(caller.key_id)
        return caller

    def authenticate_session(self, key_id: str) -> Caller:
        """Return the caller of a signed-in session, if its key is still valid, and count the call."""
        caller = self.keyring.caller_of(key_id)
        self._calls.take(caller.key_id)
        return caller

    def authorize(self, caller: Caller, permission: Permission, namespace: str) -> Memory:
        """Return the memory of a namespace. Raises ``Forbidden`` if the caller lacks the permission there."""
        require(caller, permission, namespace)
        _check_namespace(namespace)
        return self._memory_of(namespace)

    def _memory_of(self, namespace: str) -> Memory:
        with self._lock:
            memory = self._memories.pop(namespace, None) or self._memory_in(namespace)
            self._memories[namespace] = memory
            if len(self._memories) > MAX_NAMESPACES_HELD:
                oldest = next(name for name in self._memories if name != self.home.namespace)
                del self._memories[oldest]
            return memory

    def open_memories(self) -> dict[str, Memory]:
        """The memories that calls used lately, by namespace."""
        with self._lock:
            return dict(self._memories)

    def authorize_store(self, caller: Caller, permission: Permission) -> Memory:
        """Return the memory that answers for the whole store.

        Raises ``Forbidden`` if the caller lacks the permission.
        """
        require(caller, permission, None)
        return self.home

    def log_refusal(
        self,
        error: StandfastError,
        *,
        interface: str,
        operation: str,
        caller: Caller | None,
        namespace: str | None = None,
        peer: str | None = None,
    ) -> None:
        """Write an error to the access log if it is a refusal."""
        if is_refusal(error):
            self.access_log.note(
                RefusedCall.of(
                    error,
                    interface=interface,
                    operation=operation,
                    key_id=None if caller is None else caller.key_id,
                    namespace=namespace,
                    peer=peer,
                )
            )

    def agents(self) -> frozenset[str]:
        """The names of all agents that ever had a key. None of them may decide a proposal."""
        return frozenset(key.name for key in self.keyring.all() if key.role is KeyRole.AGENT)

    @contextmanager
    def verifying(self) -> Iterator[None]:
        """Hold the lock for a full verification. Raises ``Overloaded`` if one is running."""
        if not self._verifying.acquire(blocking=False):
            raise Overloaded(what="a verification is running")
        try:
            yield
        finally:
            self._verifying.release()

    @contextmanager
    def may_wait_for_model(self, is_wanted: bool) -> Iterator[bool]:
        """Whether a call may wait for a model. Only a few may, so that threads are left for other calls."""
        with self._lock:
            may_wait = is_wanted and self.model_waits < MAX_MODEL_WAITS
            self.model_waits += may_wait
        try:
            yield may_wait
        finally:
            with self._lock:
                self.model_waits -= may_wait

    def resume_extractions(self) -> None:
        """Ask the model about conversations that wait for it and are due, in all namespaces."""
        for namespace in namespaces_waiting(self.store):
            self._memory_of(namespace).extractions.resume()

    def close(self) -> None:
        """Write the access log's counts, sign the ledger's head, and close the store."""
        try:
            for memory in self.open_memories().values():
                memory.extractions.stop()
            self.access_log.flush()
            if self.replicas is not None:
                with suppress(StoreError):
                    self.replicas.leave()
        finally:
            self.home.close()


def servable_per_second(memory: Memory) -> float:
    """How many calls a second this process can serve, measured by recalls of the store's own records.

    The first recall fills caches, and is not counted. Where recall is switched off, nothing can be measured.
    """
    clock = memory.store.clock
    try:
        memory.recall(_MEASURED_QUERY)
    except StandfastError:
        return CALLS_PER_SECOND
    began, calls = clock.monotonic(), 0
    while calls < _MEASURED_CALLS and clock.monotonic() - began < _MEASURED_SECONDS:
        memory.recall(_MEASURED_QUERY)
        calls += 1
    per_second = calls / max(clock.monotonic() - began, 1e-9)
    return min(max(per_second, MIN_CALLS_PER_SECOND), CALLS_PER_SECOND)


def _check_namespace(namespace: str) -> None:
    is_printable = 0 < len(namespace) <= MAX_NAME_CHARS and namespace.isprintable()
    if not (is_printable and (namespace.isascii() or normal_string(namespace) == namespace)):
        problem = f"it must be 1 to {MAX_NAME_CHARS} printable characters in NFC, not {namespace!r:.80}"
        raise InvalidValue(what="namespace", problem=problem)
