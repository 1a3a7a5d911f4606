"""Sign-in with an API key, sign-out, session cookies and form tokens.

The cookie is a random value. The store holds its hash, with the id of the API key, until the session ends; so
a session holds at every server of the store, and ends at all of them. The key is looked up again on every
request: a revoked key ends its sessions at once.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from standfast.clock import fresh_secret
from standfast.errors import Forbidden, RateLimited, StandfastError, Unauthenticated
from standfast.limits import CONSOLE_SESSION_SECONDS
from standfast.server.access.permissions import Caller
from standfast.server.console.rendering import ROOT, html, link, redirect
from standfast.server.edge.context import peer_of
from standfast.server.edge.problems import status_of
from standfast.server.operations.gateway import Gateway
from standfast.store.protocol import TemporaryRow, TemporaryRows

COOKIE: Final = "standfast_console"
SESSION_KIND: Final = "console_session"
_NO_KEY: Final = ""
_TOKEN: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSession:
    """A session. ``key_id`` is empty until somebody has signed in."""

    token: str
    """Random, and known to the browser only: the value of its cookie."""
    key_id: str

    @property
    def is_signed_in(self) -> bool:
        """Whether somebody has signed in."""
        return self.key_id != _NO_KEY

    @property
    def form_token(self) -> str:
        """The token in every form of the session; another site can't know it."""
        return hmac.new(self.token.encode(), b"form", hashlib.sha256).hexdigest()

    def is_own_form(self, token: str) -> bool:
        """Whether a token is that of the session."""
        return token.isascii() and hmac.compare_digest(token, self.form_token)


class ConsoleSessions:
    """Begins sessions, and finds them by their cookies. Safe to share between threads and servers."""

    def __init__(self, rows: TemporaryRows) -> None:
        self._rows = rows

    def begin(self, key_id: str = _NO_KEY) -> ConsoleSession:
        """Begin a session with a new cookie, so that one from before the sign-in is worthless after it.

        A session without a key gives access to nothing, so it is not stored.
        """
        session = ConsoleSession(token=fresh_secret(), key_id=key_id)
        if session.is_signed_in:
            row = TemporaryRow(
                kind=SESSION_KIND,
                row_id=_row_id(session.token),
                content=key_id.encode(),
                keep_seconds=CONSOLE_SESSION_SECONDS,
            )
            self._rows.put(row, replaces=None)
        return session

    def end(self, session: ConsoleSession) -> None:
        """End a session; copies of its cookie are refused from now on, by every server."""
        if session.is_signed_in:
            self._rows.remove(SESSION_KIND, _row_id(session.token))

    def read(self, cookie: str | None) -> ConsoleSession | None:
        """The session of a cookie; one without a user if it is over; None if the cookie is not ours."""
        if cookie is None or not _TOKEN.fullmatch(cookie):
            return None
        row = self._rows.get(SESSION_KIND, _row_id(cookie))
        return ConsoleSession(token=cookie, key_id=_NO_KEY if row is None else row.content.decode())


def _row_id(token: str) -> str:
    """The store holds no value that could be used as a cookie."""
    return hashlib.sha256(token.encode()).hexdigest()


class Login:
    """Signs people in and out. ``behind_tls`` makes the cookie ``Secure``."""

    def __init__(self, gateway: Gateway, *, behind_tls: bool) -> None:
        self._gateway = gateway
        self._behind_tls = behind_tls
        self._sessions = ConsoleSessions(gateway.store.temporary)

    def session_of(self, request: Request) -> ConsoleSession | None:
        """The session of a request; None if nobody is signed in."""
        session = self._sessions.read(request.cookies.get(COOKIE))
        return session if session is not None and session.is_signed_in else None

    def own_session(self, request: Request) -> ConsoleSession:
        """The session of a request that a page of ours made. ``Unauthenticated`` if nobody is signed in."""
        session = self.session_of(request)
        if session is None or request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Unauthenticated(problem="the session is over; sign in again")
        return session

    def require(self, request: Request) -> Response:
        """The answer to a request without a session: the login page, which leads back to that page."""
        if request.method == "POST":
            raise Unauthenticated(problem="the session is over; sign in again")
        if request.headers.get("sec-fetch-site") == "cross-site":
            # A strict cookie is not sent with a link from another site. This page reloads itself, and then it
            # is.
            return html("redirect.html", {"to": _path_of(request)})
        return redirect(link("login", to=_path_of(request)))

    def login(self, request: Request, form: Mapping[str, str]) -> Response:
        """Show the login page, or sign in with the key in the form."""
        session = self._sessions.read(request.cookies.get(COOKIE))
        if request.method == "GET":
            to = _safe_path(request.query_params.get("to"))
            is_signed_in = session is not None and session.is_signed_in
            return redirect(to) if is_signed_in else self._login_page(session, to=to)
        to = _safe_path(form.get("to"))
        if session is None or not self._is_own_form(request, session, form):
            return self._login_page(None, to=to, status=403, is_stale=True)
        try:
            caller = self._gateway.authenticate(form.get("key", "").strip(), peer=peer_of(request))
        except StandfastError as error:
            self._gateway.log_refusal(
                error, interface="console", operation="login", caller=None, peer=peer_of(request)
            )
            return self._login_page(session, to=to, status=status_of(error), problem=error)
        self._sessions.end(session)
        response = redirect(to)
        self._set_cookie(response, self._sessions.begin(caller.key_id))
        return response

    def _login_page(
        self,
        session: ConsoleSession | None,
        *,
        to: str,
        status: int = 200,
        problem: StandfastError | None = None,
        is_stale: bool = False,
    ) -> Response:
        current = self._sessions.begin() if session is None or session.is_signed_in else session
        context = {
            "form_token": current.form_token,
            "to": to,
            "problem": None if problem is None else problem.facts.get("problem", str(problem)),
            "is_rate_limited": isinstance(problem, RateLimited),
            "is_stale": is_stale,
        }
        response = html("login.html", context, status)
        self._set_cookie(response, current)
        return response

    def logout(self, request: Request, form: Mapping[str, str]) -> Response:
        """End the session, if the form is one of its own."""
        session = self._sessions.read(request.cookies.get(COOKIE))
        if request.method == "POST" and session is not None and self._is_own_form(request, session, form):
            self._sessions.end(session)
            response = redirect(link("login"))
            self.drop_cookie(response)
            return response
        return redirect(link(""))

    def drop_cookie(self, response: Response) -> None:
        """Make the browser delete its session cookie."""
        response.delete_cookie(COOKIE, path=ROOT)

    def _set_cookie(self, response: Response, session: ConsoleSession) -> None:
        response.set_cookie(
            COOKIE,
            session.token,
            max_age=CONSOLE_SESSION_SECONDS,
            path=ROOT,
            secure=self._behind_tls,
            httponly=True,
            samesite="strict",
        )

    def require_own_form(
        self, request: Request, session: ConsoleSession, form: Mapping[str, str], caller: Caller
    ) -> None:
        """Refuse a form that does not come from a page of this session."""
        if not self._is_own_form(request, session, form):
            problem = "the form did not come from a page of this session; load the page again"
            raise Forbidden(role=caller.role.value, act="form", where="the console", problem=problem)

    def _is_own_form(self, request: Request, session: ConsoleSession, form: Mapping[str, str]) -> bool:
        is_same_origin = request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
        return is_same_origin and session.is_own_form(form.get("form_token", ""))


def _path_of(request: Request) -> str:
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def _safe_path(to: str | None) -> str:
    """The page to open after the sign-in: the given one if it is a page of the console, else the overview."""
    if to is None or not to.startswith(f"{ROOT}/") or not to.isascii() or not to.isprintable() or "\\" in to:
        return link("")
    return to
