"""Where something in memory came from and what it has touched since, as a graph over time; the quarantine
that takes it out of recall, rehearsed first; and what is in quarantine now, with the release that ends it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from standfast.errors import Forbidden, InvalidValue, StandfastError
from standfast.limits import CONSOLE_PAGE_ITEMS
from standfast.memory.investigation import InvestigationLink, InvestigationNode, NodeKind
from standfast.memory.quarantine import ActState, QuarantineAct, QuarantinedRecord
from standfast.records.incident_requests import InvestigateRequest, QuarantineRequest
from standfast.records.scopes import ALL_SCOPES, SHARED
from standfast.records.vocabulary import Value
from standfast.server.access.permissions import KeyRole, Permission
from standfast.server.console.rendering import Page, PageRequest, link

MOST_DRAWN: Final = 60
"""How many nodes the graph has; the list below it has all."""
_WIDTH: Final = 900
_LEFT: Final = 90
_LANE: Final = 70
_LANES: Final = (NodeKind.SOURCE, NodeKind.RECORD, NodeKind.RUN, NodeKind.PACKAGE)
assert set(_LANES) == set(NodeKind)


class InvestigatePageQuery(Value, frozen=True, kw_only=True):
    """What to investigate: one of a record, a source as kind:id, a run and a package."""

    id: str = ""
    source: str = ""
    run: str = ""
    package: str = ""
    scope: str = ""
    rehearse: str = ""
    done: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is named."""
        return not (self.id or self.source or self.run or self.package)

    @property
    def fields(self) -> dict[str, str]:
        """What is named, for links and forms."""
        names = ("id", "source", "run", "package", "scope")
        return {name: text for name in names if (text := getattr(self, name))}

    def selection(self, scope: str | None) -> dict[str, Any]:
        """What is named, as requests have it."""
        kind, _, name = self.source.partition(":")
        if self.source and not (kind and name):
            raise InvalidValue(what="source", problem="write it as kind:id, for example tool:crm")
        named = {
            "memory_id": self.id or None,
            "source": {"kind": kind, "id": name} if self.source else None,
            "run_id": self.run or None,
            "scope": scope,
        }
        return {field: value for field, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node with its number and its place in the graph."""

    number: int
    x: float
    y: float
    node: InvestigationNode


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes over time, from left to right, in a lane for each kind; and the links between them."""

    nodes: tuple[DrawnNode, ...]
    links: tuple[tuple[DrawnNode, DrawnNode, InvestigationLink], ...]
    lanes: tuple[tuple[str, int], ...]
    width: int = _WIDTH
    height: int = _LANE * len(_LANES) + 10


def graph_of(nodes: Sequence[InvestigationNode], links: Sequence[InvestigationLink]) -> Graph:
    """The first nodes in the order of time. What has no time stands where its first neighbour does."""
    by_id = {one.node_id: one for one in nodes[:MOST_DRAWN]}
    near = {one.node_id: one.at for one in by_id.values()}
    for one in links:
        for own, other in ((one.from_id, one.to_id), (one.to_id, one.from_id)):
            if own in by_id and other in by_id and not near[own]:
                near[own] = by_id[other].at
    times = sorted({near[node_id] for node_id in by_id})
    step = (_WIDTH - _LEFT - 30) / max(1, len(times) - 1)
    taken: dict[tuple[int, int], int] = {}
    drawn: dict[str, DrawnNode] = {}
    for number, node in enumerate(by_id.values(), 1):
        column, lane = times.index(near[node.node_id]), _LANES.index(node.kind)
        stacked = taken[column, lane] = taken.get((column, lane), -1) + 1
        x = round(_LEFT + column * step + 11 * (stacked // 3), 1)
        y = round(_LANE * lane + 18 + 19 * (stacked % 3), 1)
        drawn[node.node_id] = DrawnNode(number, x, y, node)
    kept = [one for one in links if one.from_id in drawn and one.to_id in drawn]
    return Graph(
        nodes=tuple(drawn.values()),
        links=tuple((drawn[one.from_id], drawn[one.to_id], one) for one in kept),
        lanes=tuple((f"{kind}s", _LANE * lane + 28) for lane, kind in enumerate(_LANES)),
    )


def investigate(request: PageRequest) -> Page:
    """The form; with something named, its causes and reach, and on demand a rehearsal of its quarantine."""
    return _page(request, request.parse_query(InvestigatePageQuery))


def quarantine(request: PageRequest) -> Page:
    """Take what is named out of recall, with what cites it. The ledger records it with the reason."""
    memory = request.memory(Permission.QUARANTINE)
    names = InvestigatePageQuery.__struct_fields__
    query = InvestigatePageQuery(**{name: text for name in names if (text := request.form.get(name))})
    try:
        wanted = QuarantineRequest(
            reason=request.form.get("reason", "").strip(), **query.selection(_scope(request, query))
        )
        memory.incidents.act(wanted, by=request.caller.name)
    except StandfastError as error:
        return _page(request, query, problem=error)
    return Page(redirect_to=link("investigate", request.namespace, done=1, **query.fields))


class QuarantinesPageQuery(Value, frozen=True, kw_only=True):
    """The query of the page of what is in quarantine: a scope with all below it, or one record of it."""

    scope: str = ""
    id: str = ""
    released: int = 0


@dataclass(frozen=True, slots=True)
class HeldAct:
    """An act of quarantine, in words, and the first records that it holds."""

    act: QuarantineAct
    title: str
    records: tuple[QuarantinedRecord, ...]


def quarantines(request: PageRequest) -> Page:
    """What is in quarantine now, by the act that put it there; and the acts that were taken back."""
    return _quarantines(request, request.parse_query(QuarantinesPageQuery))


def release(request: PageRequest) -> Page:
    """Take a quarantine or a revert back. The ledger records it with the reason."""
    memory = request.memory(Permission.QUARANTINE)
    query = QuarantinesPageQuery(scope=request.form.get("scope", ""), id=request.form.get("id", ""))
    try:
        done = memory.release(
            request.form.get("act", ""),
            reason=request.form.get("reason", "").strip(),
            by=request.caller.name,
        )
    except StandfastError as error:
        return _quarantines(request, query, problem=error)
    named = {"scope": query.scope or None, "id": query.id or None, "released": done.records}
    return Page(redirect_to=link("quarantine", request.namespace, **named))


def _quarantines(
    request: PageRequest, query: QuarantinesPageQuery, *, problem: StandfastError | None = None
) -> Page:
    memory = request.memory(Permission.LIST_QUARANTINES)
    records = [
        one for one in memory.quarantined(scope=query.scope or ALL_SCOPES) if query.id in ("", one.memory_id)
    ]
    acts = [
        HeldAct(act, _asked_in_words(act), _each_text_once(held)[:CONSOLE_PAGE_ITEMS])
        for act in reversed(memory.quarantines())
        if (held := [one for one in records if act.act_id in one.acts]) or not (query.scope or query.id)
    ]
    context = {
        "query": query,
        "held": [one for one in acts if one.act.state is not ActState.RELEASED],
        "released": [one for one in acts if one.act.state is ActState.RELEASED][:CONSOLE_PAGE_ITEMS],
        "may_release": request.may(Permission.QUARANTINE),
        "problem": problem,
    }
    return Page(template="quarantine.html", context=context)


def _each_text_once(records: Sequence[QuarantinedRecord]) -> tuple[QuarantinedRecord, ...]:
    """Records of an act, in their order. What is in two bands is one memory."""
    texts = dict[tuple[str, str], QuarantinedRecord]()
    for one in records:
        texts.setdefault((one.scope, one.memory_id if one.record is None else one.record.text), one)
    return tuple(texts.values())


def _asked_in_words(act: QuarantineAct) -> str:
    """What an act was about, in a few words."""
    asked = act.asked
    source = asked.get("source")
    parts = [
        str(asked.get("memory_id", "")),
        "" if source is None else f"{source['kind']}:{source['id']}",
        f"run {asked['run_id']}" if "run_id" in asked else "",
        f"agent {asked['agent']}" if "agent" in asked else "",
        f"everything since snapshot {asked['since_snapshot']}" if "since_snapshot" in asked else "",
        f"in {asked['scope']}" if asked.get("scope", SHARED) != SHARED else "",
    ]
    return " ".join(part for part in parts if part)


def _scope(request: PageRequest, query: InvestigatePageQuery) -> str | None:
    """The scope that is named; a key that is limited to scopes acts and looks only there."""
    if request.caller.scopes:
        return request.own_scope(Permission.LIST_RECORDS, query.scope)
    return query.scope or None


def _page(
    request: PageRequest, query: InvestigatePageQuery, *, problem: StandfastError | None = None
) -> Page:
    memory = request.memory(Permission.HISTORY)
    if request.caller.role is KeyRole.AGENT:
        why = "investigations are for people, with a key of role operator or auditor"
        raise Forbidden(role=request.caller.role.value, act="investigate", where="the console", problem=why)
    may_act = request.may(Permission.QUARANTINE) and not query.package
    context: dict[str, Any] = {
        "query": query,
        "may_act": may_act,
        "sees_quarantine": request.may(Permission.LIST_QUARANTINES),
        "found": None,
        "plan": None,
    }
    try:
        if not query.is_empty:
            package: dict[str, Any] = {"package_hash": query.package} if query.package else {}
            asked = InvestigateRequest(**query.selection(_scope(request, query)), **package)
            found = memory.incidents.answer(asked, sees=request.caller.covers_scope)
            graph = graph_of(found.nodes, found.links)
            numbers = {one.node.node_id: one.number for one in graph.nodes}
            context |= {"found": found, "graph": graph, "numbers": numbers}
            if query.rehearse and may_act:
                plan = QuarantineRequest(rehearse=True, **query.selection(_scope(request, query)))
                context["plan"] = memory.incidents.act(plan, by=request.caller.name)
    except StandfastError as error:
        problem = problem or error
    return Page(template="investigate.html", context={**context, "problem": problem})
