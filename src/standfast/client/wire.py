"""Sending a call and reading its answer: again, where that is safe; errors as the classes that they were."""

import http.client
import json
import threading
from typing import Any, Final
from urllib.parse import urlsplit

from standfast import errors
from standfast.clock import Clock
from standfast.errors import InvalidValue, ServerFailed, StandfastError, Unreachable
from standfast.limits import MAX_ATTEMPTS

PAUSE_SECONDS: Final = 0.2
MAX_PAUSE_SECONDS: Final = 5.0
_KINDS: Final[dict[str, type[StandfastError]]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, StandfastError)
}


class Wire:
    """A connection to a server for each thread, kept open between calls."""

    def __init__(self, address: str, key: str, *, timeout_seconds: float, clock: Clock) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidValue(what="address", problem=f"it is http://… or https://…, not {address!r:.80}")
        if not key.isascii() or not key.isprintable():
            raise InvalidValue(what="key", problem="it is printable ASCII; copy it anew")
        self.address = address.rstrip("/")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._own = threading.local()

    def ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        request_key: str | None = None,
        if_version: int | None = None,
        safe: bool = False,
    ) -> Any:
        """What the server answers. What is ``safe``, or has a key, is sent again where the first try broke off."""
        headers = dict(self._headers)
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            headers["Content-Type"] = "application/json"
        if request_key is not None:
            headers["Idempotency-Key"] = request_key
        if if_version is not None:
            headers["If-Match"] = f'"{if_version}"'
        attempts = MAX_ATTEMPTS if safe or request_key is not None else 1
        for left in range(attempts - 1, -1, -1):
            try:
                return self._once(method, f"{self._prefix}{path}", content, headers)
            except _Again as again:
                if left == 0:
                    raise again.error from None
                self._clock.sleep(again.pause_seconds)
        raise AssertionError("the last attempt answers or raises")

    def _once(self, method: str, path: str, content: bytes | None, headers: dict[str, str]) -> Any:
        connection = self._connection()
        try:
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            raw = response.read()
        except (OSError, http.client.HTTPException) as broken:
            self.close()
            problem = str(broken) or type(broken).__name__
            raise _Again(Unreachable(address=self.address, problem=problem), PAUSE_SECONDS) from None
        try:
            answer = json.loads(raw)
        except ValueError:
            raise ServerFailed(address=self.address, problem=f"status {response.status}, no JSON") from None
        if response.status < 400:
            return answer
        error = _error(self.address, answer)
        if response.status in (429, 503):
            waits = response.headers.get("Retry-After", "")
            seconds = float(waits) if waits.isascii() and waits.isdigit() else PAUSE_SECONDS
            raise _Again(error, min(seconds, MAX_PAUSE_SECONDS))
        raise error

    def _connection(self) -> http.client.HTTPConnection:
        known: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if known is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            known = self._own.connection = kind(self._host, self._port, timeout=self._timeout_seconds)
        return known

    def close(self) -> None:
        """Let go of this thread's connection; the next call makes a new one."""
        known: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if known is not None:
            known.close()
            self._own.connection = None


class _Again(Exception):
    """The call may be tried again; ``error`` is what is raised if it is not."""

    def __init__(self, error: StandfastError, pause_seconds: float) -> None:
        super().__init__()
        self.error = error
        self.pause_seconds = pause_seconds


def _error(address: str, problem: Any) -> StandfastError:
    """The error that the server tells of, as the class that it was there."""
    told = problem if isinstance(problem, dict) else {}
    code, facts, detail = told.get("code"), told.get("facts"), str(told.get("detail", ""))
    kind = _KINDS.get(code) if isinstance(code, str) else None
    if kind is not None and isinstance(facts, dict) and all(isinstance(name, str) for name in facts):
        error = kind.__new__(kind)
        StandfastError.__init__(error, **facts)
        try:
            if str(error) == detail:
                return error
        except (KeyError, IndexError, ValueError):
            pass
    return ServerFailed(address=address, problem=f"{detail} [{code}]")
