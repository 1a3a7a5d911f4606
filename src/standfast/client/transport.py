"""HTTP requests to a server: connections, retries where they are safe, and errors of the server's classes."""

import http
import http.client
import json
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from standfast import errors
from standfast.clock import Clock
from standfast.errors import AccessError, InvalidValue, StandfastError, Unreachable
from standfast.limits import EVENT_PULSE_SECONDS, MAX_ATTEMPTS
from standfast.optimize import errors as optimizer_errors
from standfast.records.vocabulary import Value

PAUSE_SECONDS: Final = 0.2
# Too many calls; and what a server that stops, or a proxy that lost its server, answers.
_RETRYABLE: Final = (429, 502, 503, 504)
MAX_PAUSE_SECONDS: Final = 5.0
_ERROR_CLASSES: Final[dict[str, type[StandfastError]]] = {
    code: kind
    for module in (errors, optimizer_errors)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, StandfastError)
    for code in (kind.code, *kind.cases)
}
_Response = TypeVar("_Response", bound=Value)


class Transport:
    """Sends requests to one server. Each thread has its own connection, which stays open between requests."""

    def __init__(self, address: str, key: str, *, timeout_seconds: float, clock: Clock) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            problem = f"it must start with http:// or https://, not be {address!r:.80}"
            raise InvalidValue(what="address", problem=problem)
        if not key.isascii() or not key.isprintable():
            raise InvalidValue(what="key", problem="it must be printable ASCII; copy it again")
        if not timeout_seconds > 0:
            raise InvalidValue(what="timeout_seconds", problem=f"it must be positive, not {timeout_seconds}")
        self.address = address.rstrip("/")
        self._is_secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._own = threading.local()
        self._connections = weakref.WeakSet[http.client.HTTPConnection]()
        self._lock = threading.Lock()

    def send(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        request_key: str | None = None,
        if_version: int | None = None,
        safe: bool = False,
    ) -> Any:
        """Send a request and return the JSON of its response.

        A request that is ``safe``, or has an idempotency key, is sent again if it was interrupted or the
        server is busy.
        """
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
                return self._send_once(method, f"{self._prefix}{path}", content, headers)
            except RetryableFailure as failure:
                if left == 0:
                    raise failure.error from None
                self._clock.sleep(failure.pause_seconds)
        raise AssertionError("the last attempt returns or raises")

    def _send_once(self, method: str, path: str, content: bytes | None, headers: dict[str, str]) -> Any:
        connection = self._connection()
        with self._reaching(self._drop_connection):
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            raw = response.read()
        return self._answer_of(response, raw)

    @contextmanager
    def _reaching(self, cleanup: Callable[[], None]) -> Iterator[None]:
        """Say of a connection that fails in this block that the request can be sent again."""
        try:
            yield
        except (OSError, http.client.HTTPException) as failure:
            cleanup()
            problem = str(failure) or type(failure).__name__
            raise RetryableFailure(
                Unreachable(address=self.address, problem=problem), PAUSE_SECONDS
            ) from None

    def _answer_of(self, response: http.client.HTTPResponse, raw: bytes) -> Any:
        """The JSON of a response, or the error that it tells of."""
        try:
            answer = json.loads(raw)
        except ValueError:
            answer = None
        if answer is None:
            problem = f"status {response.status}, and the body is not JSON"
            error: StandfastError = AccessError("server_failed", address=self.address, problem=problem)
        elif response.status < 400:
            return answer
        else:
            error = _error_of(self.address, answer)
        if response.status in _RETRYABLE:
            retry_after = response.headers.get("Retry-After", "")
            seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else PAUSE_SECONDS
            raise RetryableFailure(error, min(seconds, MAX_PAUSE_SECONDS))
        raise error

    def open_stream(self, path: str, headers: dict[str, str]) -> "OpenStream":
        """Begin a response that does not end by itself, on a connection of its own."""
        connection = self._new_connection(max(self._timeout_seconds, 3 * EVENT_PULSE_SECONDS))
        with self._reaching(connection.close):
            connection.connect()
            opened = connection.sock
            connection.request("GET", f"{self._prefix}{path}", headers={**self._headers, **headers})
            response = connection.getresponse()
            raw = b"" if response.status == http.HTTPStatus.OK else response.read()
        if response.status != http.HTTPStatus.OK:
            connection.close()
            self._answer_of(response, raw)
            problem = f"status {response.status} instead of a stream"
            raise AccessError("server_failed", address=self.address, problem=problem)
        return OpenStream(connection, opened, response)

    def _new_connection(self, timeout_seconds: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=timeout_seconds)

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = self._new_connection(self._timeout_seconds)
            with self._lock:
                self._connections.add(connection)
        return connection

    def _drop_connection(self) -> None:
        connection: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
        if connection is not None:
            connection.close()
            self._own.connection = None

    def close(self) -> None:
        """Close the connections of all threads. A later request opens a new one."""
        with self._lock:
            for connection in list(self._connections):
                connection.close()


@dataclass(frozen=True, slots=True)
class OpenStream:
    """A response that does not end by itself, with its connection and the socket that can be shut down."""

    connection: http.client.HTTPConnection
    socket: socket.socket
    response: http.client.HTTPResponse


class ApiCalls:
    """Typed requests to the API in one namespace. A path beginning with ``/v1/`` is outside of it."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self.transport = transport
        self._prefix = f"/v1/namespaces/{quote(namespace, safe='')}"

    def get(self, path: str, kind: type[_Response], query: Value | None = None) -> _Response:
        """Read something. Fields of the query that are not set are left out."""
        fields = {} if query is None else query.as_json()
        encoded = urlencode({name: _text(value) for name, value in fields.items() if value is not None})
        url = f"{self._url(path)}?{encoded}" if encoded else self._url(path)
        return kind.from_json(self.transport.send("GET", url, safe=True))

    def pages(self, path: str, kind: type[_Response], query: Value) -> Iterator[_Response]:
        """Yield all pages of a list."""
        cursor: str | None = None
        while True:
            page = self.get(path, kind, type(query).from_json(query.as_json() | {"cursor": cursor}))
            yield page
            cursor = getattr(page, "next", None)
            if cursor is None:
                return

    def post(
        self,
        path: str,
        kind: type[_Response],
        body: Value | None = None,
        *,
        request_key: str | None = None,
        safe: bool = False,
    ) -> _Response:
        """Do something. It is retried if it is ``safe`` or has an idempotency key.

        A body that the server would refuse is not sent.
        """
        plain = None if body is None else body.as_json()
        if body is not None:
            type(body).from_json(plain)
        answer = self.transport.send("POST", self._url(path), plain, request_key=request_key, safe=safe)
        return kind.from_json(answer)

    def change(
        self, method: str, path: str, kind: type[_Response], body: Value, *, if_version: int
    ) -> _Response:
        """Change something that has a version. It is never retried."""
        answer = self.transport.send(method, self._url(path), body.as_json(), if_version=if_version)
        return kind.from_json(answer)

    def delete(self, path: str) -> Any:
        """Delete something, and return the answer."""
        return self.transport.send("DELETE", self._url(path))

    def _url(self, path: str) -> str:
        return path if path.startswith("/v1/") else f"{self._prefix}{path}"


class RetryableFailure(Exception):
    """The request can be sent again. ``error`` is raised if it is not."""

    def __init__(self, error: StandfastError, pause_seconds: float) -> None:
        super().__init__()
        self.error = error
        self.pause_seconds = pause_seconds


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _error_of(address: str, problem: object) -> StandfastError:
    """The error in a problem+json, as the class that it was on the server."""
    fields = problem if isinstance(problem, dict) else {}
    code, facts, detail = fields.get("code"), fields.get("facts"), str(fields.get("detail", ""))
    kind = _ERROR_CLASSES.get(code) if isinstance(code, str) else None
    if (
        isinstance(code, str)
        and kind is not None
        and isinstance(facts, dict)
        and all(isinstance(name, str) for name in facts)
    ):
        error = errors.rebuilt(kind, code, facts)
        try:
            if str(error) == detail:
                return error
        except (KeyError, IndexError, ValueError):
            pass
    return AccessError("server_failed", address=address, problem=f"{detail} [{code}]")
