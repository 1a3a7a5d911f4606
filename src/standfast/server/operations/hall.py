"""The hall behind every door: callers are let in here, and nothing leads from a door to a memory but ``enter``."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Final, Self

from standfast.errors import Overloaded, StandfastError
from standfast.govern.approvals.signers import Signers
from standfast.limits import (
    CALLS_AT_ONCE,
    CALLS_PER_SECOND,
    FAILED_CALLS_AT_ONCE,
    FAILED_CALLS_PER_SECOND,
    MAX_NAMESPACES_HELD,
)
from standfast.memory import Memory
from standfast.optimize.prompts.overrides import PromptOverridesStore
from standfast.server.access.keys import Keyring
from standfast.server.access.pace import Pace
from standfast.server.access.refusals import Refusal, Refusals, is_refusal
from standfast.server.access.table import Act, Caller, KeyRole, require
from standfast.settings import Settings
from standfast.vocabulary import Value
from standfast.wiring import memory_in, open_memory, open_overrides, signers_of

VERSION: Final = version("standfast")


class _Place(Value, frozen=True, kw_only=True):
    namespace: str

    def __post_init__(self) -> None:
        self._require_name("namespace", self.namespace)


class Hall:
    """One store with the memories of its namespaces, its keys and its access log. Safe to share between threads."""

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
    ) -> None:
        self.home = home
        self.store = home.store
        self.keyring = Keyring(home.store)
        self.refusals = Refusals(home.store)
        self.signers = signers
        self.bench_results = bench_results
        self.overrides = overrides
        self.clock = home.store.clock
        self._calls = Pace(
            self.clock,
            per_second=calls_per_second,
            at_once=max(1.0, calls_per_second * CALLS_AT_ONCE / CALLS_PER_SECOND),
        )
        self._failures = Pace(
            self.clock,
            per_second=failed_calls_per_second,
            at_once=max(1.0, failed_calls_per_second * FAILED_CALLS_AT_ONCE / FAILED_CALLS_PER_SECOND),
        )
        self._memory_in = memory_in
        self._memories: OrderedDict[str, Memory] = OrderedDict({home.namespace: home})
        self._lock = threading.Lock()
        self.verifying = threading.Lock()

    @classmethod
    def open(cls, settings: Settings, *, create: bool, calls_per_second: float = CALLS_PER_SECOND) -> Self:
        """The hall of the store that the settings name."""
        home = open_memory(settings, create=create)
        return cls(
            home,
            memory_in=lambda namespace: memory_in(settings, home.store, namespace),
            signers=lambda: signers_of(settings),
            bench_results=settings.bench_results,
            overrides=cache(lambda: open_overrides(at)) if (at := settings.prompt_overrides) else None,
            calls_per_second=calls_per_second,
        )

    def caller_of(self, token: str | None, *, peer: str) -> Caller:
        """Who holds this token. Who fails too often is refused without being told why; who does not, never is."""
        try:
            caller = self.keyring.caller_of(token)
        except StandfastError:
            self._failures.take(peer)
            raise
        self._calls.take(caller.key_id)
        return caller

    def returning(self, key_id: str) -> Caller:
        """Who was let in with this key before, and remembered in a way that can't be forged; if it is still good."""
        caller = self.keyring.caller_with(key_id)
        self._calls.take(caller.key_id)
        return caller

    def enter(self, caller: Caller, act: Act, namespace: str) -> Memory:
        """The memory of a namespace, for a caller whom the table lets do this there."""
        require(caller, act, namespace)
        _Place(namespace=namespace)
        with self._lock:
            memory = self._memories.pop(namespace, None) or self._memory_in(namespace)
            self._memories[namespace] = memory
            if len(self._memories) > MAX_NAMESPACES_HELD:
                oldest = next(name for name in self._memories if name != self.home.namespace)
                del self._memories[oldest]
            return memory

    def enter_store(self, caller: Caller, act: Act) -> Memory:
        """The memory that answers for the whole store, for a caller whom the table lets ask it this."""
        require(caller, act, None)
        return self.home

    def refused(
        self,
        error: StandfastError,
        *,
        door: str,
        act: str,
        caller: Caller | None,
        namespace: str | None = None,
        peer: str | None = None,
    ) -> None:
        """Have the access log told, if the error is a refusal."""
        if is_refusal(error):
            key_id = None if caller is None else caller.key_id
            self.refusals.note(
                Refusal.of(error, door=door, act=act, key_id=key_id, namespace=namespace, peer=peer)
            )

    def agents(self) -> frozenset[str]:
        """The names of all agents that ever had a key: none of them may decide a proposal."""
        return frozenset(key.name for key in self.keyring.all() if key.role is KeyRole.AGENT)

    def one_at_a_time(self) -> threading.Lock:
        """The lock of what is too much work to be done twice at once; ``Overloaded`` if it is taken."""
        if not self.verifying.acquire(blocking=False):
            raise Overloaded(what="verifying everything is under way already")
        return self.verifying

    def close(self) -> None:
        """Tell what was counted, sign the ledger's head, and let go of the store."""
        try:
            self.refusals.flush()
        finally:
            self.home.close()
