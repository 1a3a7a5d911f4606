"""What a route is, and what reaches its verb: one call that was read and whose caller was let in."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from standfast.server.access.table import Act, Caller
from standfast.server.http.runs import OpenRuns
from standfast.server.operations import shapes
from standfast.server.operations.hall import Hall
from standfast.vocabulary import Value

REQUEST_KEY_HEADER: Final = "Idempotency-Key"
VERSION_HEADER: Final = "If-Match"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call that was read: who, where, what."""

    hall: Hall
    runs: OpenRuns
    caller: Caller
    path: dict[str, str]
    asked: Any
    request_key: str | None = None
    if_version: int = 0

    @property
    def namespace(self) -> str:
        """The namespace in the address."""
        return self.path["namespace"]

    @property
    def run_id(self) -> str:
        """The run in the address."""
        return self.path["run_id"]

    @property
    def place(self) -> tuple[Hall, Caller, str]:
        """What the verbs of a namespace begin with."""
        return self.hall, self.caller, self.namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One route: ``asks`` comes as the body of a POST or PUT and as the query of a GET; ``does`` gives an ``answers``.

    With ``takes_version`` a change is made only to the version that the caller names; with ``version_of`` the answer
    tells its own.
    """

    name: str
    act: Act
    method: str
    path: str
    says: str
    does: Callable[[Call], Value]
    answers: type[Value]
    asks: type[Value] = shapes.Nothing
    status: int = 200
    takes_request_key: bool = False
    takes_version: bool = False
    version_of: Callable[[Any], int] | None = None

    @property
    def has_body(self) -> bool:
        """Whether what is asked comes as a JSON body."""
        return self.method in ("POST", "PUT") and self.asks is not shapes.Nothing


def read(
    name: str, act: Act, path: str, says: str, *, does: Callable[[Call], Value], **rest: Any
) -> Operation:
    """A route that only reads."""
    return Operation(name=name, act=act, method="GET", path=path, says=says, does=does, **rest)


def do(name: str, act: Act, path: str, says: str, *, does: Callable[[Call], Value], **rest: Any) -> Operation:
    """A route that does something."""
    return Operation(name=name, act=act, method="POST", path=path, says=says, does=does, **rest)
