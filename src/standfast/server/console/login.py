"""Sign-in with an API key, sign-out, session cookies and form tokens.

The cookie is signed. It names the id of the API key and the end of the session, and holds no secret of the caller. The key
is looked up again on every request, so a revoked key ends its sessions at once. The signing secret exists only in this
process: a restart ends every session.
"""

import base64
import hashlib
import hmac
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from standfast.clock import Clock, IdSource, fresh_secret
from standfast.errors import Forbidden, RateLimited, StandfastError, Unauthenticated
from standfast.limits import CONSOLE_SESSION_SECONDS, MAX_ENDED_SESSIONS
from standfast.server.access.permissions import Caller
from standfast.server.console.rendering import ROOT, html, link, redirect
from standfast.server.edge.context import peer_of
from standfast.server.edge.problems import status_of
from standfast.server.operations.gateway import Gateway

COOKIE: Final = "standfast_console"
_NO_KEY: Final = ""
_MAX_COOKIE_CHARS: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSession:
    """A session. ``key_id`` is empty until somebody has signed in."""

    session_id: str
    key_id: str
    ends_at: int

    @property
    def is_signed_in(self) -> bool:
        """Whether somebody has signed in."""
        return self.key_id != _NO_KEY


class ConsoleSessions:
    """Creates sessions, reads them from cookies, and makes their form tokens. Safe to share between threads."""

    def __init__(self, *, clock: Clock, ids: IdSource) -> None:
        self._clock = clock
        self._ids = ids
        self._secret = fresh_secret().encode()
        self._ended: dict[str, int] = {}
        self._ended_through = 0
        self._lock = threading.Lock()

    def begin(self, key_id: str = _NO_KEY) -> ConsoleSession:
        """Begin a session with a new id, so that a cookie from before the sign-in is worthless after it."""
        ends_at = int(self._clock.now().timestamp()) + CONSOLE_SESSION_SECONDS
        return ConsoleSession(session_id=self._ids.new_id(), key_id=key_id, ends_at=ends_at)

    def end(self, session: ConsoleSession) -> None:
        """End a session; copies of its cookie are refused from now on.

        A session without a key gives access to nothing, so it is not remembered. If too many sessions end before their
        time, the oldest of them are forgotten, and with them every session that is as old has to sign in again.
        """
        if not session.is_signed_in:
            return
        now = self._clock.now().timestamp()
        with self._lock:
            self._ended[session.session_id] = session.ends_at
            if len(self._ended) > MAX_ENDED_SESSIONS:
                oldest = sorted(self._ended.values())[MAX_ENDED_SESSIONS // 10]
                self._ended_through = max(self._ended_through, oldest)
                self._ended = {
                    session_id: ends_at
                    for session_id, ends_at in self._ended.items()
                    if ends_at > max(self._ended_through, now)
                }

    def cookie_of(self, session: ConsoleSession) -> str:
        """The cookie value of a session."""
        fields = msgspec.json.encode([session.session_id, session.key_id, session.ends_at])
        body = base64.urlsafe_b64encode(fields).rstrip(b"=").decode()
        return f"{body}.{self._mac('session', body)}"

    def read(self, cookie: str | None) -> ConsoleSession | None:
        """The session of a cookie; None if the cookie is not ours or the session is over."""
        body, dot, mac = (cookie or "").partition(".")
        if not dot or len(body) > _MAX_COOKIE_CHARS or not body.isascii() or not mac.isascii():
            return None
        if not hmac.compare_digest(mac, self._mac("session", body)):
            return None
        padded = body.encode() + b"=" * (-len(body) % 4)
        session_id, key_id, ends_at = msgspec.json.decode(
            base64.urlsafe_b64decode(padded), type=tuple[str, str, int]
        )
        with self._lock:
            is_ended = session_id in self._ended or ends_at <= self._ended_through
            is_over = is_ended or self._clock.now().timestamp() >= ends_at
        return None if is_over else ConsoleSession(session_id=session_id, key_id=key_id, ends_at=ends_at)

    def form_token(self, session: ConsoleSession) -> str:
        """The token in every form of a session; another site can't know it."""
        return self._mac("form", session.session_id)

    def is_own_form(self, session: ConsoleSession, token: str) -> bool:
        """Whether a token is that of the session."""
        return token.isascii() and hmac.compare_digest(token, self.form_token(session))

    def _mac(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()


class Login:
    """Signs people in and out. ``behind_tls`` makes the cookie ``Secure``."""

    def __init__(self, gateway: Gateway, *, behind_tls: bool) -> None:
        self._gateway = gateway
        self._behind_tls = behind_tls
        self._sessions = ConsoleSessions(clock=gateway.clock, ids=gateway.store.ids)

    def session_of(self, request: Request) -> ConsoleSession | None:
        """The session of a request; None if nobody is signed in."""
        session = self._sessions.read(request.cookies.get(COOKIE))
        return session if session is not None and session.is_signed_in else None

    def form_token(self, session: ConsoleSession) -> str:
        """The token for the forms of a session."""
        return self._sessions.form_token(session)

    def require(self, request: Request) -> Response:
        """The answer to a request without a session: the login page, which leads back to the requested page."""
        if request.method == "POST":
            raise Unauthenticated(problem="the session is over; sign in again")
        if request.headers.get("sec-fetch-site") == "cross-site":
            # A strict cookie is not sent with a link from another site. This page reloads itself, and then it is.
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
            "form_token": self._sessions.form_token(current),
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
            self._sessions.cookie_of(session),
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
        return is_same_origin and self._sessions.is_own_form(session, form.get("form_token", ""))


def _path_of(request: Request) -> str:
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def _safe_path(to: str | None) -> str:
    """The page to open after the sign-in: the given one if it is a page of the console, else the overview."""
    if to is None or not to.startswith(f"{ROOT}/") or not to.isascii() or not to.isprintable() or "\\" in to:
        return link("")
    return to
