"""One request to the console as the pages see it, and the page that answers it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from standfast.errors import InvalidValue
from standfast.govern.approvals.queue import SYSTEM_NAMESPACE
from standfast.memory import Memory
from standfast.server.access.permissions import Caller, Permission, is_allowed
from standfast.server.access.scope_limits import own_scope
from standfast.server.console.band_stats import StatsCache
from standfast.server.operations.gateway import Gateway
from standfast.settings import Settings
from standfast.vocabulary import Value

MAX_LISTED_NAMESPACES: Final = 200
_Query = TypeVar("_Query", bound=Value)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request of a signed-in caller, in one namespace, with the fields of its query string and form."""

    gateway: Gateway
    caller: Caller
    namespace: str
    query: Mapping[str, str]
    form: Mapping[str, str]
    settings: Settings
    stats: StatsCache

    @property
    def target(self) -> tuple[Gateway, Caller, str]:
        """The first arguments of every operation on a namespace."""
        return self.gateway, self.caller, self.namespace

    def parse_query(self, kind: type[_Query], **fields: Any) -> _Query:
        """The query string as a request value. Empty fields, as forms send them, count as missing."""
        known = {one.name for one in msgspec.structs.fields(kind)}
        texts = {name: text for name, text in self.query.items() if text and name in known}
        try:
            return msgspec.convert(texts | fields, kind, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidValue(what="address", problem=str(error)) from None

    def may(self, permission: Permission) -> bool:
        """Whether the caller has this permission in the namespace."""
        return is_allowed(self.caller, permission, self.namespace)

    def memory(self, permission: Permission) -> Memory:
        """The memory of the namespace. Raises ``Forbidden`` if the caller lacks the permission."""
        return self.gateway.authorize(self.caller, permission, self.namespace)

    def own_scope(self, permission: Permission, scope: str | None) -> str:
        """The scope to work in, by default that of the key. Raises ``Forbidden`` if the key is limited to others."""
        return own_scope(self.caller, permission, scope or None)

    @property
    def sees_whole_store(self) -> bool:
        """Whether the caller may see what belongs to no namespace: ledger, traces, benchmarks, prompts."""
        return is_allowed(self.caller, Permission.LEDGER, None)

    def whole_store(self) -> Memory:
        """The home memory, for what belongs to no namespace. Raises ``Forbidden`` without the ledger permission."""
        return self.gateway.authorize_store(self.caller, Permission.LEDGER)

    def namespaces(self) -> list[str]:
        """The namespaces the caller can choose from."""
        if not self.caller.covers_all:
            return sorted(self.caller.namespaces)
        known = {*self.gateway.store.namespaces(), self.gateway.home.namespace, self.namespace}
        return sorted(known - {SYSTEM_NAMESPACE})[:MAX_LISTED_NAMESPACES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A template with its context; or a redirect; or a file to download, with the content ``context["text"]`` or in ``pieces``."""

    template: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    redirect_to: str | None = None
    file_name: str | None = None
    pieces: Iterator[bytes] | None = None


PageHandler = Callable[[PageRequest], Page]
