"""What an investigation found: a graph of records, runs, packages and sources, with how sure each link is.

Links point from what influenced to what was influenced. Most are facts that are recorded, and certain. That a
run wrote a record after it had been handed another is certain too, but whether the one shaped the other is
only possible; such a link is of kind ``written after``. Nothing is inferred from how texts look.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, Final

from standfast.records.vocabulary import Value


class NodeKind(StrEnum):
    """What a node of an investigation is."""

    RECORD = "record"
    RUN = "run"
    PACKAGE = "package"
    SOURCE = "source"


class LinkKind(StrEnum):
    """How one node led to another."""

    SAID = "said"
    """A source said a record."""
    WROTE = "wrote"
    """A run wrote a record."""
    CITED = "cited by"
    """A record is cited by another one."""
    REPLACED = "replaced by"
    """A version of a record was replaced by a newer one, or superseded by another record."""
    SHOWN = "shown in"
    """A package showed a record."""
    HANDED = "handed to"
    """A package was handed to a run."""
    WRITTEN_AFTER = "written after"
    """A run wrote a record after it had been handed a package."""

    @property
    def is_certain(self) -> bool:
        """Whether what it points to was influenced for certain."""
        return self is not LinkKind.WRITTEN_AFTER


class Side(StrEnum):
    """Where a node stands, seen from what was asked about."""

    START = "start"
    CAUSE = "cause"
    REACH = "reach"


class RecordState(StrEnum):
    """What has become of a version of a record."""

    CURRENT = "current"
    REPLACED = "replaced"
    ENDED = "ended"
    QUARANTINED = "in quarantine"
    ERASED = "erased"


class InvestigationNode(Value, frozen=True, kw_only=True):
    """A record, a run, a package or a source.

    Attributes:
        node_id: Unique within the investigation: its kind, a colon and a name.
        label: A few words for people.
        is_certain: Whether it is a cause, or was influenced, for certain.
        steps: How many links it is away from where the investigation started.
        snapshot: The snapshot that wrote a record, or that a package is of.
        at: When that was.
        caller: Who asked or wrote, as far as it is known: the name of a key, or an agent.
        text: The text of a record; empty if it was erased, or may not be shown.
        is_replacement: Whether it only took the place of another record of the investigation.
    """

    node_id: str
    kind: NodeKind
    label: str
    side: Side
    is_certain: bool
    steps: int
    scope: str = ""
    memory_id: str = ""
    snapshot: int | None = None
    at: str = ""
    run_id: str = ""
    caller: str = ""
    source: str = ""
    origin: str = ""
    verdict: str = ""
    evidence_hash: str = ""
    state: RecordState | None = None
    text: str = ""
    is_replacement: bool = False


class InvestigationLink(Value, frozen=True, kw_only=True):
    """That one node led to another."""

    from_id: str
    to_id: str
    kind: LinkKind
    is_certain: bool


class Investigation(Value, frozen=True, kw_only=True):
    """Where something came from, and what it has touched since.

        found = memory.investigate(package_hash=answer.package_hash)
        print(found.text())
        memory.quarantine(source={"kind": "tool", "id": "crm"}, reason="incident 4")

    Attributes:
        asked: What was asked about.
        memory_snapshot_id: The newest snapshot when it was asked: what is current is so as of then.
        nodes: Causes, start and reach, in the order of ``side``, certainty, steps and id.
        links: From cause to effect.
        left_out: How many nodes were found beyond the most that are shown.
        notes: What the answer could not know, such as recalls that nothing recorded.
    """

    asked: dict[str, Any]
    namespace: str
    memory_snapshot_id: int
    nodes: tuple[InvestigationNode, ...]
    links: tuple[InvestigationLink, ...]
    left_out: int = 0
    notes: tuple[str, ...] = ()

    def of(
        self, kind: NodeKind | None = None, side: Side | None = None, *, certain: bool | None = None
    ) -> list[InvestigationNode]:
        """The nodes of a kind, of a side, and of a certainty; by default all."""
        return [
            node
            for node in self.nodes
            if (kind is None or node.kind is kind)
            and (side is None or node.side is side)
            and (certain is None or node.is_certain is certain)
        ]

    @property
    def start(self) -> list[InvestigationNode]:
        """What was asked about."""
        return self.of(side=Side.START)

    @property
    def causes(self) -> list[InvestigationNode]:
        """Where it came from."""
        return self.of(side=Side.CAUSE)

    @property
    def reach(self) -> list[InvestigationNode]:
        """What it has touched."""
        return self.of(side=Side.REACH)

    @property
    def certain(self) -> list[InvestigationNode]:
        """The records that rest on it for certain, because they cite it, over any number of steps."""
        return [one for one in self.of(NodeKind.RECORD, Side.REACH, certain=True) if not one.is_replacement]

    @property
    def possible(self) -> list[InvestigationNode]:
        """The records that may rest on it: a run wrote them after it had been handed it."""
        return [one for one in self.of(NodeKind.RECORD, Side.REACH, certain=False) if not one.is_replacement]

    @property
    def records_by_scope(self) -> dict[str, int]:
        """How many records of its reach each scope has."""
        return dict(sorted(Counter(node.scope for node in (*self.certain, *self.possible)).items()))

    def text(self) -> str:
        """The investigation in words, for a terminal or a ticket."""
        return "\n".join(_lines(self)) + "\n"

    def dot(self) -> str:
        """The graph in Graphviz DOT. Links that are only possible are dashed."""
        return "\n".join(_dot_lines(self)) + "\n"


_TITLES: Final = {Side.START: "Asked about", Side.CAUSE: "Causes", Side.REACH: "Reach"}
assert set(_TITLES) == set(Side)
_SHAPES: Final = {
    NodeKind.RECORD: "box",
    NodeKind.RUN: "ellipse",
    NodeKind.PACKAGE: "note",
    NodeKind.SOURCE: "house",
}
assert set(_SHAPES) == set(NodeKind)
_TEXT_CHARS: Final = 160


def _lines(found: Investigation) -> Iterator[str]:
    asked = ", ".join(f"{name}={value}" for name, value in sorted(found.asked.items()))
    yield f"Investigation of {asked} in {found.namespace}, as of snapshot {found.memory_snapshot_id}"
    runs = {node.node_id for node in found.of(NodeKind.RUN, Side.REACH)}
    packages = len(found.of(NodeKind.PACKAGE, Side.REACH))
    yield (
        f"Reach: {len(found.certain)} records for certain, {len(found.possible)} possibly;"
        f" {packages} packages, {len(runs)} runs."
    )
    incoming: dict[str, list[InvestigationLink]] = {}
    outgoing: dict[str, list[InvestigationLink]] = {}
    for link in found.links:
        incoming.setdefault(link.to_id, []).append(link)
        outgoing.setdefault(link.from_id, []).append(link)
    labels = {node.node_id: node.label for node in found.nodes}
    for side in (Side.START, Side.CAUSE, Side.REACH):
        nodes = found.of(side=side)
        if nodes:
            yield ""
            yield f"{_TITLES[side]}:"
        for node in nodes:
            yield from _node_lines(node)
            for link in incoming.get(node.node_id, ()) if side is not Side.CAUSE else ():
                yield f"      <- {link.kind} <- {labels[link.from_id]}"
            for link in outgoing.get(node.node_id, ()) if side is Side.CAUSE else ():
                yield f"      -> {link.kind} -> {labels[link.to_id]}"
    if found.left_out:
        yield ""
        yield f"{found.left_out} more were found; ask about one of the records above to see them."
    for note in found.notes:
        yield ""
        yield note


def _node_lines(node: InvestigationNode) -> Iterator[str]:
    doubt = "" if node.is_certain or node.is_replacement else " (possible)"
    state = "" if node.state is None else f", {node.state}"
    by = f" by {node.caller}" if node.caller else ""
    yield f"  {node.label}{state}{doubt}{f', {node.at}' if node.at else ''}{by}"
    if node.text:
        shown = " ".join(node.text.split())
        yield f"      {shown[:_TEXT_CHARS]}{'…' if len(shown) > _TEXT_CHARS else ''}"


def _dot_lines(found: Investigation) -> Iterator[str]:
    yield "digraph investigation {"
    yield "  rankdir=LR;"
    for node in found.nodes:
        shown = {
            "label": node.label,
            "shape": _SHAPES[node.kind],
            "style": "solid" if node.is_certain else "dashed",
            **({"penwidth": "3"} if node.side is Side.START else {}),
            **({"color": "red"} if node.state is RecordState.QUARANTINED else {}),
        }
        yield f"  {_quoted(node.node_id)} [{_attributes(shown.items())}];"
    for link in found.links:
        style = "solid" if link.is_certain else "dashed"
        named = _attributes([("label", link.kind.value), ("style", style)])
        yield f"  {_quoted(link.from_id)} -> {_quoted(link.to_id)} [{named}];"
    yield "}"


def _attributes(named: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={_quoted(value)}" for name, value in named)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
