"""What an ``AsyncClient`` gives access to besides memory: proposals, API keys, traces and prompts; and the threads that it calls in."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import ParamSpec, TypeVar

from standfast.client.remote_resources import RemoteApprovals, RemoteKeys, RemotePrompts, RemoteTraces
from standfast.errors import InvalidValue
from standfast.govern.approvals.approvals import Proposal, Statement
from standfast.limits import DEFAULT_PAGE_ITEMS
from standfast.optimize.prompts.overrides import STABLE, PromptOverride, SectionOverride
from standfast.optimize.prompts.template import PromptTemplate
from standfast.server.access.permissions import KeyRole
from standfast.server.operations import schemas
from standfast.traces.artifact import Trace
from standfast.traces.equivalence import Comparison
from standfast.vocabulary import Receipt

_P = ParamSpec("_P")
_T = TypeVar("_T")


class ClientThreads:
    """The threads of one client. Each keeps one connection, so they bound the connections as well."""

    def __init__(self, max_connections: int) -> None:
        if not (type(max_connections) is int and max_connections > 0):
            problem = f"it must be a positive number, not {max_connections!r:.80}"
            raise InvalidValue(what="max_connections", problem=problem)
        self._executor = ThreadPoolExecutor(max_connections, thread_name_prefix="standfast-client")

    async def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function in a thread."""
        call = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def iterate(self, items: Iterator[_T]) -> AsyncIterator[_T]:
        """Yield from an iterator that sends requests, one page at a time."""
        while page := await self.run(lambda: list(islice(items, DEFAULT_PAGE_ITEMS))):
            for item in page:
                yield item

    def close(self) -> None:
        """Let calls in progress end, without waiting for them."""
        self._executor.shutdown(wait=False)


class AsyncRemoteApprovals:
    """The proposals of the client's namespace."""

    def __init__(self, threads: ClientThreads, approvals: RemoteApprovals) -> None:
        self._threads = threads
        self._approvals = approvals

    def waiting(self) -> AsyncIterator[Proposal]:
        """Yield the proposals that wait for a decision, by id."""
        return self._threads.iterate(self._approvals.waiting())

    def decided(self) -> AsyncIterator[Proposal]:
        """Yield the proposals that were decided, by id."""
        return self._threads.iterate(self._approvals.decided())

    async def find(self, proposal_id: str) -> schemas.ProposalResponse:
        """One proposal, with the statements that decide it."""
        return await self._threads.run(self._approvals.find, proposal_id)

    async def decide(
        self, statement: Statement, signature: str, *, signed_list: Sequence[str] = ()
    ) -> Receipt:
        """Submit the armored SSH signature over a statement's text; see ``RemoteApprovals.decide``."""
        return await self._threads.run(self._approvals.decide, statement, signature, signed_list=signed_list)


class AsyncRemoteKeys:
    """The API keys; see ``RemoteKeys``."""

    def __init__(self, threads: ClientThreads, keys: RemoteKeys) -> None:
        self._threads = threads
        self._keys = keys

    def list(self, *, revoked: bool = False) -> AsyncIterator[schemas.KeyInfo]:
        """Yield the valid keys, by id; with ``revoked``, all."""
        return self._threads.iterate(self._keys.list(revoked=revoked))

    async def create(
        self,
        name: str,
        *,
        namespaces: Sequence[str],
        role: KeyRole | str = KeyRole.AGENT,
        days: int | None = None,
        scopes: Sequence[str] = (),
    ) -> schemas.CreatedKey:
        """Create a key; see ``RemoteKeys.create``."""
        return await self._threads.run(
            self._keys.create, name, namespaces=namespaces, role=role, days=days, scopes=scopes
        )

    async def revoke(self, key_id: str) -> schemas.KeyInfo:
        """Revoke a key, at once and for good."""
        return await self._threads.run(self._keys.revoke, key_id)


class AsyncRemoteTraces:
    """The recorded traces."""

    def __init__(self, threads: ClientThreads, traces: RemoteTraces) -> None:
        self._threads = threads
        self._traces = traces

    def list(self) -> AsyncIterator[schemas.TraceSummary]:
        """Yield all traces, by file name."""
        return self._threads.iterate(self._traces.list())

    async def get(self, run_id: str) -> Trace:
        """The trace of a run, verified."""
        return await self._threads.run(self._traces.get, run_id)

    async def compare(self, left: str, right: str) -> Comparison:
        """Compare the traces of two runs."""
        return await self._threads.run(self._traces.compare, left, right)


class AsyncRemotePrompts:
    """Prompt overrides; see ``RemotePrompts``."""

    def __init__(self, threads: ClientThreads, prompts: RemotePrompts) -> None:
        self._threads = threads
        self._prompts = prompts

    async def get(self, ns: str, prompt_key: str, *, tag: str = STABLE) -> PromptOverride:
        """The overrides of a tag."""
        return await self._threads.run(self._prompts.get, ns, prompt_key, tag=tag)

    async def put(
        self,
        prompt: PromptTemplate,
        overrides: Sequence[SectionOverride],
        *,
        if_version: int,
        tag: str = STABLE,
    ) -> PromptOverride:
        """Replace all overrides of a tag if it still has version ``if_version``."""
        return await self._threads.run(self._prompts.put, prompt, overrides, if_version=if_version, tag=tag)

    async def rollback(
        self, prompt: PromptTemplate, *, if_version: int, tag: str = STABLE, to_version: int | None = None
    ) -> PromptOverride:
        """Restore a version of the tag's history, by default the one before the last change."""
        return await self._threads.run(
            self._prompts.rollback, prompt, if_version=if_version, tag=tag, to_version=to_version
        )
