"""The addresses of the console, and what every visit passes: session, form token, the work in a thread, errors as pages."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from standfast.canon import normal_string
from standfast.errors import BadRequest, NotCanonical, NotFound, StandfastError, Unauthenticated
from standfast.server.access.permissions import Caller
from standfast.server.console import auditing, deciding, grading, looking, running
from standfast.server.console.entrance import Entrance
from standfast.server.console.rendering import HEADERS, ROOT, STATIC_TYPES, html, onward, static_file
from standfast.server.console.sessions import Session
from standfast.server.console.tally import Tallies
from standfast.server.console.visit import Handler, Page, Visit
from standfast.server.edge.context import ApiContext, peer_of
from standfast.server.edge.middleware import OPERATION_IN_SCOPE
from standfast.server.edge.problems import problem_of, status_of
from standfast.settings import Settings

log: Final = logging.getLogger("standfast.server.http")
_MAX_FORM_FIELDS: Final = 10


@dataclass(frozen=True, slots=True)
class Address:
    """A page: where it is, what answers, what its form does, and whether it is for those who see the whole store."""

    path: str
    title: str
    shows: Handler
    does: Handler | None = None
    in_menu: bool = False
    of_house: bool = False


ADDRESSES: Final = (
    Address("", "Overview", looking.overview, in_menu=True),
    Address("memory", "Memory", looking.memory, in_menu=True),
    Address("record", "Record", looking.record),
    Address("snapshots", "Time travel", looking.snapshots, in_menu=True),
    Address("diff", "Differences", looking.diff, in_menu=True),
    Address("approvals", "Approvals", deciding.approvals, in_menu=True),
    Address("proposal", "Proposal", deciding.proposal, deciding.decide),
    Address("runs", "Runs", running.runs, in_menu=True, of_house=True),
    Address("trace", "Trace", running.trace, of_house=True),
    Address("compare", "Side by side", running.compare, of_house=True),
    Address("ledger", "Ledger", auditing.ledger, auditing.verify, in_menu=True),
    Address("entry", "Ledger entry", auditing.entry),
    Address("receipt", "Receipt", auditing.receipt_file),
    Address("bench", "Benchmarks", grading.bench, in_menu=True, of_house=True),
    Address("prompts", "Prompts", grading.prompts, in_menu=True, of_house=True),
    Address("report", "Report", grading.report, of_house=True),
)
# Under which item of the menu a page that is not in it belongs.
SECTION_OF: Final = {
    "record": "memory",
    "proposal": "approvals",
    "trace": "runs",
    "compare": "runs",
    "entry": "ledger",
    "receipt": "ledger",
    "report": "prompts",
}
assert set(SECTION_OF) == {address.path for address in ADDRESSES if not address.in_menu}


class Console:
    """The pages over a api."""

    def __init__(self, api: ApiContext, settings: Settings, *, behind_tls: bool) -> None:
        self._api = api
        self._gateway = api.gateway
        self._settings = settings
        self._entrance = Entrance(api.gateway, behind_tls=behind_tls)
        self._tallies = Tallies()

    def routes(self) -> list[BaseRoute]:
        """Every address; what is none of them is a page too."""
        routes: list[BaseRoute] = [
            Route(f"{ROOT}/static/{{name}}", self._static, methods=["GET"]),
            Route(f"{ROOT}/login", self._in_thread(self._entrance.login), methods=["GET", "POST"]),
            Route(f"{ROOT}/logout", self._in_thread(self._entrance.logout), methods=["GET", "POST"]),
        ]
        for address in ADDRESSES:
            methods = ["GET", "POST"] if address.does else ["GET"]
            routes.append(Route(f"{ROOT}/{address.path}", self._page(address), methods=methods))
        missing = Address("", "Not found", _missing)
        return [
            *routes,
            Route(ROOT, self._page(ADDRESSES[0])),
            Route(f"{ROOT}/{{rest:path}}", self._page(missing)),
        ]

    def _page(self, address: Address) -> Callable[[Request], Awaitable[Response]]:
        return self._in_thread(lambda request, form: self._answer(request, form, address))

    def _in_thread(
        self, work: Callable[[Request, Mapping[str, str]], Response]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            request.scope[OPERATION_IN_SCOPE] = "console"
            body = await request.body() if request.method == "POST" else b""

            def answered() -> Response:
                try:
                    return work(request, _fields(body) if body else {})
                except StandfastError as error:
                    return self._refused(error, request, "form")

            try:
                return await self._api.threads.run(answered)
            except StandfastError as error:
                return html("error.html", {"problem": problem_of(error)}, status_of(error))

        return endpoint

    def _answer(self, request: Request, form: Mapping[str, str], address: Address) -> Response:
        session = self._entrance.session_of(request)
        if session is None:
            return self._entrance.ask(request)
        visit: Visit | None = None
        try:
            caller = self._gateway.authenticate_session(session.key_id)
            visit = self._visit(request, form, caller)
            if request.method == "POST":
                self._entrance.require_own_form(request, session, form, caller)
            handler = address.does if request.method == "POST" and address.does else address.shows
            page = handler(visit)
            return self._shown(page, address, session, visit)
        except StandfastError as error:
            return self._refused(error, request, address.path or "overview", session, visit)

    def _visit(self, request: Request, form: Mapping[str, str], caller: Caller) -> Visit:
        words = _normal(request.query_params.multi_items())
        home = self._gateway.home.namespace
        first = home if caller.covers(home) else caller.namespaces[0]
        return Visit(
            gateway=self._gateway,
            caller=caller,
            namespace=form.get("in") or words.get("in") or first,
            words=words,
            form=form,
            settings=self._settings,
            tallies=self._tallies,
        )

    def _shown(self, page: Page, address: Address, session: Session, visit: Visit) -> Response:
        if page.to is not None:
            return onward(page.to)
        if page.file_name is not None:
            attached = {"Content-Disposition": f'attachment; filename="{page.file_name}"'}
            return Response(
                page.facts["text"], media_type="application/octet-stream", headers=HEADERS | attached
            )
        facts = {
            **self._frame(session, visit),
            "title": address.title,
            "here": _section(address),
            **page.facts,
        }
        return html(page.template, facts, page.status)

    def _frame(self, session: Session, visit: Visit) -> dict[str, Any]:
        """What stands around every page of somebody who is signed in."""
        menu = [one for one in ADDRESSES if one.in_menu and (visit.oversees or not one.of_house)]
        return {
            "caller": visit.caller,
            "namespace": visit.namespace,
            "namespaces": visit.namespaces(),
            "menu": menu,
            "form_token": self._entrance.form_token(session),
        }

    def _refused(
        self,
        error: StandfastError,
        request: Request,
        operation: str,
        session: Session | None = None,
        visit: Visit | None = None,
    ) -> Response:
        """An error as a page; the access log is told of refusals, the log of our own troubles."""
        self._gateway.log_refusal(
            error,
            interface="console",
            operation=operation,
            caller=None if visit is None else visit.caller,
            namespace=None if visit is None else visit.namespace,
            peer=peer_of(request),
        )
        status = status_of(error)
        if status >= 500:
            log.error("console: %s [%s]", error, error.code)
        frame = {} if session is None or visit is None else self._frame_of_refusal(session, visit)
        answer = html("error.html", {**frame, "problem": problem_of(error)}, status)
        if isinstance(error, Unauthenticated):
            self._entrance.drop_cookie(answer)
        return answer

    def _frame_of_refusal(self, session: Session, visit: Visit) -> dict[str, Any]:
        """The frame, without a namespace that is not the caller's."""
        frame = self._frame(session, visit)
        if not visit.caller.covers(visit.namespace):
            frame["namespace"] = None
        return {**frame, "title": "Refused", "here": None}

    async def _static(self, request: Request) -> Response:
        request.scope[OPERATION_IN_SCOPE] = "console"
        name = request.path_params["name"]
        if name not in STATIC_TYPES:
            return html("error.html", {"problem": problem_of(NotFound(what="such file"))}, 404)
        kept = {"Cache-Control": "public, max-age=31536000, immutable", "Content-Type": STATIC_TYPES[name]}
        return Response(static_file(name), headers=HEADERS | kept)


def _missing(_: Visit) -> Page:
    raise NotFound(what="page at this address")


def _section(address: Address) -> str:
    return SECTION_OF.get(address.path, address.path)


def _fields(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FORM_FIELDS
        )
    except ValueError:
        raise BadRequest(problem="the form is no UTF-8 text, or has too many fields") from None
    return _normal(pairs)


def _normal(pairs: list[tuple[str, str]]) -> dict[str, str]:
    try:
        return {normal_string(name): normal_string(value) for name, value in pairs}
    except NotCanonical:
        raise BadRequest(problem="the address or the form holds what is no text") from None


def console_room(settings: Settings, *, behind_tls: bool) -> Callable[[ApiContext], list[BaseRoute]]:
    """What makes the console's routes for an app; its cookie is for TLS only where that is terminated in front."""
    return lambda api: Console(api, settings, behind_tls=behind_tls).routes()
