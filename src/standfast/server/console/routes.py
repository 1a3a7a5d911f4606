"""The table of the console's pages, and what every request passes: session, form token, thread, errors."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from standfast.errors import AccessError, NotCanonical, NotFound, StandfastError, Unauthenticated
from standfast.extensions import ConsolePage, extensions, part_at
from standfast.records.canon import normal_string
from standfast.server.access.permissions import Caller, KeyRole, Permission
from standfast.server.console import (
    approval_pages,
    audit_pages,
    conflict_page,
    glossary,
    home_pages,
    investigate_page,
    playground_page,
    record_pages,
    scope_pages,
    search,
    time_pages,
    trace_pages,
)
from standfast.server.console.login import ConsoleSession, Login
from standfast.server.console.namespace_stats import StatsCache
from standfast.server.console.rendering import (
    HEADERS,
    ROOT,
    STATIC_TYPES,
    Page,
    PageHandler,
    PageRequest,
    html,
    link,
    redirect,
    static_file,
)
from standfast.server.edge.admission import ClientLeft
from standfast.server.edge.context import CLIENT_LEFT, ApiContext, client_left, peer_of
from standfast.server.edge.event_streams import EventStreams
from standfast.server.edge.middleware import CALLER_IN_SCOPE, OPERATION_IN_SCOPE
from standfast.server.edge.problems import problem_of, status_of
from standfast.server.operations.event_operations import last_entry
from standfast.settings import Settings

log: Final = logging.getLogger("standfast.server.http")
_MAX_FORM_FIELDS: Final = 80
GROUPS: Final = ("Home", "Playground", "People", "Decide", "Investigate")
"""The menu. Each leads to the first page of its group; the others are listed below it while one is open."""


@dataclass(frozen=True, slots=True)
class PageRoute:
    """A page: its path, title and handlers, and where it stands in the menu.

    ``whole_store`` marks pages that belong to no namespace; callers with a key for one namespace do not see
    them. ``for_people`` marks those that agents do not see, ``all_scopes`` those that are not for keys which
    are limited to scopes. ``group`` is the group of the menu that lists it; a page that no group lists names
    the one that it is ``under``.
    """

    path: str
    title: str
    get: PageHandler
    post: PageHandler | None = None
    group: str = ""
    whole_store: bool = False
    for_people: bool = False
    all_scopes: bool = False
    under: str = ""

    def is_shown_to(self, request: PageRequest) -> bool:
        """Whether the menu lists the page for a caller. The page itself checks permissions."""
        return (
            bool(self.group)
            and (not self.whole_store or request.sees_whole_store)
            and (not self.for_people or request.caller.role is not KeyRole.AGENT)
            and not (self.all_scopes and request.caller.scopes)
        )


def _extension_route(page: ConsolePage) -> PageRoute:
    def get(request: PageRequest) -> Page:
        traces = request.whole_store().traces
        context = part_at(page.at)(request.settings, request.query, traces)
        return Page(template=f"{page.path}.html", context=context, status=200)

    def post(request: PageRequest) -> Page:
        traces = request.gateway.authorize_store(request.caller, Permission.CHANGE_PROMPT).traces
        query = part_at(page.form_at)(request.settings, request.form, traces, request.caller.name)
        return Page(redirect_to=link(page.path, request.namespace, **query))

    return PageRoute(
        page.path,
        page.title,
        get,
        post if page.form_at else None,
        group="" if page.under else page.group,
        whole_store=True,
        under=page.under,
    )


PAGES: Final = (
    PageRoute("", "Home", home_pages.home, group="Home"),
    PageRoute("activity", "Activity", home_pages.activity, group="Home"),
    PageRoute("keys", "Keys", audit_pages.keys, audit_pages.change, group="Home", for_people=True),
    PageRoute("words", "Words", glossary.words, group="Home"),
    PageRoute("playground", "Playground", playground_page.playground, group="Playground"),
    PageRoute("scopes", "People", scope_pages.scopes, group="People"),
    PageRoute("search", "Search", search.search, group="People"),
    PageRoute("scope", "Scope", scope_pages.scope, under="scopes"),
    PageRoute("export", "Export", scope_pages.export, under="scopes"),
    PageRoute("write", "Write", scope_pages.write, scope_pages.remember, under="scopes"),
    PageRoute("forget", "Forget", scope_pages.rehearse, scope_pages.forget, under="scopes"),
    PageRoute("record", "Record", record_pages.record, under="scopes"),
    PageRoute("approvals", "Waiting", approval_pages.approvals, group="Decide"),
    PageRoute("proposal", "Proposal", approval_pages.proposal, approval_pages.decide, under="approvals"),
    PageRoute(
        "sign", "Sign together", approval_pages.sign, approval_pages.decide_together, under="approvals"
    ),
    PageRoute("conflicts", "Disagreeing", conflict_page.conflicts, conflict_page.settle, group="Decide"),
    PageRoute("refused", "Rejected", search.refused, group="Decide", for_people=True),
    PageRoute(
        "investigate",
        "Investigate",
        investigate_page.investigate,
        investigate_page.quarantine,
        group="Investigate",
        for_people=True,
    ),
    PageRoute(
        "quarantine",
        "In quarantine",
        investigate_page.quarantines,
        investigate_page.release,
        group="Investigate",
        for_people=True,
        all_scopes=True,
    ),
    PageRoute("changes", "What changed", time_pages.changes, group="Investigate"),
    PageRoute("known", "What it knew on …", time_pages.known, group="Investigate"),
    PageRoute("runs", "Runs", trace_pages.runs, group="Investigate", whole_store=True),
    PageRoute("trace", "Trace", trace_pages.trace, whole_store=True, under="runs"),
    PageRoute("compare", "Compare runs", trace_pages.compare, whole_store=True, under="runs"),
    PageRoute("ledger", "Ledger", audit_pages.ledger, audit_pages.verify, group="Investigate"),
    PageRoute("entry", "Ledger entry", audit_pages.entry, under="ledger"),
    PageRoute("receipt", "Receipt", audit_pages.receipt_file, under="ledger"),
    *(_extension_route(page) for one in extensions() for page in one.pages),
)
_GROUP_OF: Final = {page.path: page.group for page in PAGES if page.group}
assert all(bool(page.group) != bool(page.under) for page in PAGES)
assert all((page.group or _GROUP_OF[page.under]) in GROUPS for page in PAGES)


class Console:
    """The pages over one server."""

    def __init__(self, api: ApiContext, settings: Settings, *, behind_tls: bool) -> None:
        self._api = api
        self._gateway = api.gateway
        self._settings = settings
        self._login = Login(api.gateway, behind_tls=behind_tls)
        self._stats = StatsCache()
        self._events = EventStreams(api, interface="console")

    def routes(self) -> list[BaseRoute]:
        """The routes of all pages. An unknown path below the console gets an error page."""
        routes: list[BaseRoute] = [
            Route(f"{ROOT}/static/{{name}}", self._static, methods=["GET"]),
            Route(f"{ROOT}/login", self._in_thread(self._login.login), methods=["GET", "POST"]),
            Route(f"{ROOT}/events", self._stream_events, methods=["GET"]),
            Route(f"{ROOT}/logout", self._in_thread(self._login.logout), methods=["GET", "POST"]),
        ]
        for page in PAGES:
            methods = ["GET", "POST"] if page.post else ["GET"]
            routes.append(Route(f"{ROOT}/{page.path}", self._endpoint(page), methods=methods))
        missing = PageRoute("", "Not found", _missing)
        return [
            *routes,
            Route(ROOT, self._endpoint(PAGES[0])),
            Route(f"{ROOT}/{{rest:path}}", self._endpoint(missing)),
        ]

    def _endpoint(self, route: PageRoute) -> Callable[[Request], Awaitable[Response]]:
        return self._in_thread(lambda request, form: self._answer(request, form, route))

    def _in_thread(
        self, work: Callable[[Request, Mapping[str, str]], Response]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            request.scope[OPERATION_IN_SCOPE] = "console"
            body = b""

            def answer() -> Response:
                try:
                    return work(request, _form_fields(body) if body else {})
                except StandfastError as error:
                    return self._error_page(error, request, "form")

            queue = self._api.queues.reads if request.method == "GET" else self._api.queues.writes
            try:
                body = await request.body() if request.method == "POST" else b""
                name = await self._api.key_threads.run(lambda: self._queue_of(request))
                return await queue.run(name, answer, gone=lambda: client_left(request))
            except (ClientLeft, ClientDisconnect):
                return Response(status_code=CLIENT_LEFT)
            except StandfastError as error:
                return html("error.html", {"problem": problem_of(error)}, status_of(error))

        return endpoint

    def _queue_of(self, request: Request) -> str:
        """Whose turn a page is: the key's that signed in, or else the peer's."""
        session = self._login.session_of(request)
        return session.key_id if session is not None else f"peer {peer_of(request)}"

    def _answer(self, request: Request, form: Mapping[str, str], route: PageRoute) -> Response:
        session = self._login.session_of(request)
        if session is None:
            return self._login.require(request)
        page_request: PageRequest | None = None
        try:
            caller = self._gateway.authenticate_session(session.key_id)
            request.scope[CALLER_IN_SCOPE] = caller
            page_request = self._page_request(request, form, caller)
            if request.method == "POST":
                self._login.require_own_form(request, session, form, caller)
            handler = route.post if request.method == "POST" and route.post else route.get
            return self._response(handler(page_request), route, session, page_request)
        except StandfastError as error:
            return self._error_page(error, request, route.path or "home", session, page_request)

    def _page_request(self, request: Request, form: Mapping[str, str], caller: Caller) -> PageRequest:
        query = _normal(request.query_params.multi_items())
        home = self._gateway.home.namespace
        default = home if caller.covers(home) else caller.namespaces[0]
        return PageRequest(
            gateway=self._gateway,
            caller=caller,
            namespace=form.get("in") or query.get("in") or default,
            query=query,
            form=form,
            settings=self._settings,
            stats=self._stats,
        )

    def _response(
        self, page: Page, route: PageRoute, session: ConsoleSession, page_request: PageRequest
    ) -> Response:
        if page.redirect_to is not None:
            return redirect(page.redirect_to)
        if page.file_name is not None:
            headers = HEADERS | {"Content-Disposition": f'attachment; filename="{page.file_name}"'}
            if page.pieces is not None:
                return StreamingResponse(page.pieces, media_type="application/octet-stream", headers=headers)
            return Response(page.context["text"], media_type="application/octet-stream", headers=headers)
        layout = self._layout(session, page_request)
        current = route.under or route.path
        here = {"title": route.title, "current": current, "group": _GROUP_OF[current]}
        context = {**layout, **here, **page.context}
        return html(page.template, context, page.status)

    def _layout(self, session: ConsoleSession, page_request: PageRequest) -> dict[str, Any]:
        """The template variables of the menu and header."""
        return {
            "caller": page_request.caller,
            "namespace": page_request.namespace,
            "namespaces": page_request.namespaces(),
            "menu": [
                (group, [one for one in PAGES if one.group == group and one.is_shown_to(page_request)])
                for group in GROUPS
            ],
            "form_token": session.form_token,
            "events_from": last_entry(self._gateway, page_request.caller),
        }

    def _error_page(
        self,
        error: StandfastError,
        request: Request,
        operation: str,
        session: ConsoleSession | None = None,
        page_request: PageRequest | None = None,
    ) -> Response:
        """The page of an error. Refusals go to the access log, internal errors to the log."""
        self._gateway.log_refusal(
            error,
            interface="console",
            operation=operation,
            caller=None if page_request is None else page_request.caller,
            namespace=None if page_request is None else page_request.namespace,
            peer=peer_of(request),
        )
        status = status_of(error)
        if status >= 500:
            log.error("console: %s [%s]", error, error.code)
        layout: dict[str, Any] = {}
        if session is not None and page_request is not None:
            layout = {
                **self._layout(session, page_request),
                "title": "Refused",
                "current": None,
                "group": None,
            }
            if not page_request.caller.covers(page_request.namespace):
                layout["namespace"] = None
        response = html("error.html", {**layout, "problem": problem_of(error)}, status)
        if isinstance(error, Unauthenticated):
            self._login.drop_cookie(response)
        return response

    async def _stream_events(self, request: Request) -> Response:
        """Live events for the scripts of a signed-in browser. The stream ends with the session."""

        def authenticate() -> Callable[[], Caller]:
            session = self._login.own_session(request)
            caller = self._gateway.authenticate_session(session.key_id)
            request.scope[CALLER_IN_SCOPE] = caller
            return lambda: self._gateway.keyring.caller_of(self._login.own_session(request).key_id)

        return await self._events.respond(request, authenticate)

    async def _static(self, request: Request) -> Response:
        request.scope[OPERATION_IN_SCOPE] = "console"
        name = request.path_params["name"]
        if name not in STATIC_TYPES:
            return html("error.html", {"problem": problem_of(NotFound(what="such file"))}, 404)
        cached = {"Cache-Control": "public, max-age=31536000, immutable", "Content-Type": STATIC_TYPES[name]}
        return Response(static_file(name), headers=HEADERS | cached)


def _missing(_: PageRequest) -> Page:
    raise NotFound(what="page at this address")


def _form_fields(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FORM_FIELDS
        )
    except ValueError:
        raise AccessError(
            "bad_request", problem="the form is not UTF-8 text, or has too many fields"
        ) from None
    return _normal(pairs)


def _normal(pairs: list[tuple[str, str]]) -> dict[str, str]:
    try:
        return {normal_string(name): normal_string(value) for name, value in pairs}
    except NotCanonical:
        raise AccessError(
            "bad_request", problem="the address or the form holds characters that are not text"
        ) from None


def console_routes(settings: Settings, *, behind_tls: bool) -> Callable[[ApiContext], list[BaseRoute]]:
    """A function that makes the console's routes for an app. ``behind_tls`` makes its cookie ``Secure``."""
    return lambda api: Console(api, settings, behind_tls=behind_tls).routes()
