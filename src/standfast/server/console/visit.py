"""One visit as the pages see it, and the page that answers it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from standfast.errors import InvalidValue
from standfast.govern.approvals.queue import SYSTEM_NAMESPACE
from standfast.memory import Memory
from standfast.server.access.permissions import Caller, Permission, is_allowed
from standfast.server.console.tally import Tallies
from standfast.server.operations.gateway import Gateway
from standfast.vocabulary import Value

if TYPE_CHECKING:
    from standfast.settings import Settings

MAX_OFFERED_NAMESPACES: Final = 200
_Asked = TypeVar("_Asked", bound=Value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """Somebody who is signed in asks for a page: who, in which namespace, with which words in the address and the form."""

    gateway: Gateway
    caller: Caller
    namespace: str
    words: Mapping[str, str]
    form: Mapping[str, str]
    settings: "Settings"
    tallies: Tallies

    @property
    def place(self) -> tuple[Gateway, Caller, str]:
        """What the verbs of a namespace begin with."""
        return self.gateway, self.caller, self.namespace

    def asked(self, kind: type[_Asked], **given: Any) -> _Asked:
        """The words of the address as a request; empty ones, as forms send them, were not given."""
        fields = {one.name for one in msgspec.structs.fields(kind)}
        told = {name: word for name, word in self.words.items() if word and name in fields} | given
        try:
            return msgspec.convert(told, kind, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidValue(what="address", problem=str(error)) from None

    def may(self, act: Permission) -> bool:
        """Whether the caller may do this in the namespace."""
        return is_allowed(self.caller, act, self.namespace)

    @property
    def oversees(self) -> bool:
        """Whether the caller may see what belongs to no namespace: the ledger, traces, benchmarks, prompts."""
        return is_allowed(self.caller, Permission.LEDGER, None)

    def enter_house(self) -> Memory:
        """The memory of the whole store, for what belongs to no namespace. Nobody sees more of it than of the ledger."""
        return self.gateway.authorize_store(self.caller, Permission.LEDGER)

    def namespaces(self) -> list[str]:
        """The namespaces to choose from."""
        if not self.caller.covers_all:
            return sorted(self.caller.namespaces)
        known = {*self.gateway.store.namespaces(), self.gateway.home.namespace, self.namespace}
        return sorted(known - {SYSTEM_NAMESPACE})[:MAX_OFFERED_NAMESPACES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A template with what stands in it; or, with ``to``, another page to go to."""

    template: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    to: str | None = None
    file_name: str | None = None
    """The name under which to keep it, if it is no page but a file."""


Handler = Callable[[Visit], Page]
