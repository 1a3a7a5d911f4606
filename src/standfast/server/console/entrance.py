"""The entrance: signing in with an API key, signing out, and whether a form is one of ours."""

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from standfast.errors import Forbidden, RateLimited, StandfastError, Unauthenticated
from standfast.limits import CONSOLE_SESSION_SECONDS
from standfast.server.access.permissions import Caller
from standfast.server.console.rendering import ROOT, html, link, onward
from standfast.server.console.sessions import Session, Sessions
from standfast.server.edge.context import peer_of
from standfast.server.edge.problems import status_of
from standfast.server.operations.gateway import Gateway

COOKIE: Final = "standfast_console"


class Entrance:
    """Lets people in and out. The cookie is for TLS only where that is terminated in front."""

    def __init__(self, gateway: Gateway, *, behind_tls: bool) -> None:
        self._gateway = gateway
        self._behind_tls = behind_tls
        self._sessions = Sessions(clock=gateway.clock, ids=gateway.store.ids)

    def session_of(self, request: Request) -> Session | None:
        """The session that a request belongs to, if somebody is signed in."""
        session = self._sessions.read(request.cookies.get(COOKIE))
        return session if session is not None and session.is_signed_in else None

    def form_token(self, session: Session) -> str:
        """What the forms of a session carry."""
        return self._sessions.form_token(session)

    def ask(self, request: Request) -> Response:
        """Lead somebody who is not signed in to the door, and from there back to where they wanted to go."""
        if request.method == "POST":
            raise Unauthenticated(problem="the session is over; sign in again")
        if request.headers.get("sec-fetch-site") == "cross-site":
            # A strict cookie does not come with a link from elsewhere; once this page goes on by itself, it does.
            return html("onward.html", {"to": _own_path(request)})
        return onward(link("login", to=_own_path(request)))

    def login(self, request: Request, form: Mapping[str, str]) -> Response:
        """Show the door, or let in whoever has a key."""
        session = self._sessions.read(request.cookies.get(COOKIE))
        if session is not None and session.is_signed_in and request.method == "GET":
            return onward(_safe(request.query_params.get("to")))
        if request.method == "GET":
            return self._login_page(session, to=_safe(request.query_params.get("to")))
        if session is None or not self._is_own(request, session, form):
            return self._login_page(None, to=_safe(form.get("to")), status=403, stale=True)
        try:
            caller = self._gateway.authenticate(form.get("key", "").strip(), peer=peer_of(request))
        except StandfastError as error:
            self._gateway.log_refusal(
                error, interface="console", operation="login", caller=None, peer=peer_of(request)
            )
            return self._login_page(session, to=_safe(form.get("to")), status=status_of(error), problem=error)
        self._sessions.end(session)
        answer = onward(_safe(form.get("to")))
        self._set_cookie(answer, self._sessions.begin(caller.key_id))
        return answer

    def _login_page(
        self,
        session: Session | None,
        *,
        to: str,
        status: int = 200,
        problem: StandfastError | None = None,
        stale: bool = False,
    ) -> Response:
        known = self._sessions.begin() if session is None or session.is_signed_in else session
        facts = {
            "form_token": self._sessions.form_token(known),
            "to": to,
            "problem": None if problem is None else problem.facts.get("problem", str(problem)),
            "is_pace": isinstance(problem, RateLimited),
            "stale": stale,
        }
        answer = html("login.html", facts, status)
        self._set_cookie(answer, known)
        return answer

    def logout(self, request: Request, form: Mapping[str, str]) -> Response:
        """End the session; only a form of its own does that."""
        session = self._sessions.read(request.cookies.get(COOKIE))
        if request.method == "POST" and session is not None and self._is_own(request, session, form):
            self._sessions.end(session)
            answer = onward(link("login"))
            self.drop_cookie(answer)
            return answer
        return onward(link(""))

    def drop_cookie(self, answer: Response) -> None:
        """Have the browser forget its session."""
        answer.delete_cookie(COOKIE, path=ROOT)

    def _set_cookie(self, answer: Response, session: Session) -> None:
        answer.set_cookie(
            COOKIE,
            self._sessions.cookie_of(session),
            max_age=CONSOLE_SESSION_SECONDS,
            path=ROOT,
            secure=self._behind_tls,
            httponly=True,
            samesite="strict",
        )

    def require_own_form(
        self, request: Request, session: Session, form: Mapping[str, str], caller: Caller
    ) -> None:
        """Refuse a form that did not come from a page of this session."""
        if not self._is_own(request, session, form):
            problem = "the form did not come from a page of this session; load the page again"
            raise Forbidden(role=caller.role.value, act="form", where="the console", problem=problem)

    def _is_own(self, request: Request, session: Session, form: Mapping[str, str]) -> bool:
        from_here = request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
        return from_here and self._sessions.is_own_form(session, form.get("form_token", ""))


def _own_path(request: Request) -> str:
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def _safe(to: str | None) -> str:
    """Where to go after signing in: a page of ours, whatever the address says."""
    is_ours = (
        to is not None and to.startswith(f"{ROOT}/") and to.isascii() and to.isprintable() and "\\" not in to
    )
    return to if is_ours and to is not None else link("")
