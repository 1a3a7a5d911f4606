"""An investigation in words and as a drawing."""

from typing import Any

import msgspec

from standfast.memory.investigation import (
    Investigation,
    InvestigationLink,
    InvestigationNode,
    LinkKind,
    NodeKind,
    RecordState,
    Side,
)

AT = "2026-01-01T00:00:00.000000Z"


def node(node_id: str, kind: NodeKind, side: Side, **fields: Any) -> InvestigationNode:
    given = {"label": node_id.partition(":")[2], "is_certain": True, "steps": 1, **fields}
    return InvestigationNode(node_id=node_id, kind=kind, side=side, **given)


def link(from_id: str, to_id: str, kind: LinkKind) -> InvestigationLink:
    return InvestigationLink(from_id=from_id, to_id=to_id, kind=kind, is_certain=kind.is_certain)


FOUND = Investigation(
    asked={"source": "crm", "scope": "*"},
    namespace="default",
    memory_snapshot_id=7,
    notes=("No log.",),
    left_out=3,
    nodes=(
        node(
            "record:a",
            NodeKind.RECORD,
            Side.START,
            state=RecordState.CURRENT,
            text="One  line\nand more",
            at=AT,
        ),
        node("source:crm", NodeKind.SOURCE, Side.CAUSE),
        node("run:r", NodeKind.RUN, Side.CAUSE, caller="bot", at=AT),
        node(
            "record:c", NodeKind.RECORD, Side.REACH, state=RecordState.QUARANTINED, scope="b", text="x" * 160
        ),
        node("record:d", NodeKind.RECORD, Side.REACH, is_replacement=True, is_certain=False, text="x" * 161),
        node("record:b", NodeKind.RECORD, Side.REACH, is_certain=False, scope="a", label='a "b" \\ c\nd'),
        node("package:p", NodeKind.PACKAGE, Side.REACH, caller="bot"),
        node("run:s", NodeKind.RUN, Side.REACH),
    ),
    links=(
        link("record:a", "record:c", LinkKind.CITED),
        link("run:r", "record:a", LinkKind.WROTE),
        link("run:r", "record:b", LinkKind.WRITTEN_AFTER),
    ),
)


def test_an_investigation_is_told_by_side_with_what_led_to_what() -> None:
    assert FOUND.text() == (
        "Investigation of scope=*, source=crm in default, as of snapshot 7\n"
        "Reach: 1 records for certain, 1 possibly; 1 packages, 1 runs.\n"
        "\n"
        "Asked about:\n"
        f"  a, current, {AT}\n"
        "      One line and more\n"
        "      <- wrote <- r\n"
        "\n"
        "Causes:\n"
        "  crm\n"
        f"  r, {AT} by bot\n"
        "      -> wrote -> a\n"
        '      -> written after -> a "b" \\ c\nd\n'
        "\n"
        "Reach:\n"
        "  c, in quarantine\n"
        f"      {'x' * 160}\n"
        "      <- cited by <- a\n"
        "  d\n"
        f"      {'x' * 160}…\n"
        '  a "b" \\ c\nd (possible)\n'
        "      <- written after <- r\n"
        "  p by bot\n"
        "  s\n"
        "\n"
        "3 more were found; ask about one of the records above to see them.\n"
        "\n"
        "No log.\n"
    )


def test_a_drawing_shows_what_is_possible_in_quarantine_and_asked_about() -> None:
    assert FOUND.dot().splitlines() == [
        "digraph investigation {",
        "  rankdir=LR;",
        '  "record:a" [label="a", shape="box", style="solid", penwidth="3"];',
        '  "source:crm" [label="crm", shape="house", style="solid"];',
        '  "run:r" [label="r", shape="ellipse", style="solid"];',
        '  "record:c" [label="c", shape="box", style="solid", color="red"];',
        '  "record:d" [label="d", shape="box", style="dashed"];',
        '  "record:b" [label="a \\"b\\" \\\\ c d", shape="box", style="dashed"];',
        '  "package:p" [label="p", shape="note", style="solid"];',
        '  "run:s" [label="s", shape="ellipse", style="solid"];',
        '  "record:a" -> "record:c" [label="cited by", style="solid"];',
        '  "run:r" -> "record:a" [label="wrote", style="solid"];',
        '  "run:r" -> "record:b" [label="written after", style="dashed"];',
        "}",
    ]


def test_an_empty_side_and_nothing_left_out_are_not_told() -> None:
    empty = msgspec.structs.replace(FOUND, nodes=(), links=(), notes=(), left_out=0)

    assert empty.text() == (
        "Investigation of scope=*, source=crm in default, as of snapshot 7\n"
        "Reach: 0 records for certain, 0 possibly; 0 packages, 0 runs.\n"
    )


def test_nodes_are_chosen_by_kind_side_and_certainty_and_records_counted_by_scope() -> None:
    def ids(nodes: list[InvestigationNode]) -> list[str]:
        return [one.node_id for one in nodes]

    assert ids(FOUND.start) == ["record:a"]
    assert ids(FOUND.causes) == ["source:crm", "run:r"]
    assert ids(FOUND.of(NodeKind.RUN)) == ["run:r", "run:s"]
    assert ids(FOUND.of(NodeKind.RUN, Side.REACH)) == ["run:s"]
    assert ids(FOUND.of(certain=False)) == ["record:d", "record:b"]
    assert ids(FOUND.certain) == ["record:c"]
    assert ids(FOUND.possible) == ["record:b"]
    assert list(FOUND.records_by_scope.items()) == [("a", 1), ("b", 1)]
