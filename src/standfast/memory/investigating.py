"""Investigating: from a record, package, run, source or scope back to its causes and forward to its reach.

Both ways are searched step by step, what is certain before what is only possible, so that a node counts as
certain if any way to it is. What a caller may not see is neither shown nor followed.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from standfast.errors import NotFound
from standfast.limits import MAX_INVESTIGATION_NODES, MAX_INVESTIGATION_STEPS
from standfast.memory.investigation import (
    Investigation,
    InvestigationLink,
    InvestigationNode,
    LinkKind,
    NodeKind,
    RecordState,
    Side,
)
from standfast.memory.lineage import Lineage, RecordPlace, RecordVersion
from standfast.records.incident_requests import InvestigateRequest
from standfast.store.store import Store
from standfast.traces.recall_log import RecallEntry

_NO_LOG: Final = (
    "No recall log is kept, so that only recalls of recorded runs are known. Open memory with"
    " recall_log=True, or use the server, which keeps one."
)


class Investigator:
    """Builds one investigation.

    Args:
        sees: Tells of a scope whether the caller may see what is in it.
        shows_quarantined: Whether the caller may read what is in quarantine.
    """

    def __init__(
        self,
        lineage: Lineage,
        store: Store,
        namespace: str,
        *,
        sees: Callable[[str], bool] = lambda _: True,
        shows_quarantined: bool = True,
    ) -> None:
        self._lineage, self._namespace = lineage, namespace
        self._sees, self._shows_quarantined = sees, shows_quarantined
        self._hidden = store.hidden_at(namespace, lineage.head)
        self._nodes: dict[str, InvestigationNode] = {}
        self._links: dict[tuple[str, str, LinkKind], InvestigationLink] = {}
        self._left_out: set[str] = set()
        self._followed: dict[Side, dict[RecordPlace, bool]] = {Side.CAUSE: {}, Side.REACH: {}}

    def investigate(self, asked: InvestigateRequest) -> Investigation:
        """Find the causes and the reach of what is asked about.

        Raises:
            NotFound: There is no such record, package or run, or the caller may not see it.
        """
        if asked.package_hash is not None:
            self._start_with_package(asked.package_hash)
        elif asked.run_id is not None:
            self._start_with_run(asked.run_id)
        else:
            versions = self._visible(self._start_versions(asked))
            if not versions and asked.memory_id is not None:
                raise NotFound(what=f"record {asked.memory_id!r:.80} in scope {asked.place}")
            started = [(one, True) for one in versions if self._add_record(one, Side.START, True, 0)]
            self._trace_causes(started)
            self._trace_reach(started)
        return self._found(asked)

    def _start_versions(self, asked: InvestigateRequest) -> list[RecordVersion]:
        if asked.memory_id is None:
            return self._lineage.selected(asked)
        after, until = self._lineage.range_of(asked)
        found = self._lineage.all_of(asked.place, asked.memory_id)
        return [one for one in found if after < one.place.snapshot <= until]

    def _start_with_package(self, package_hash: str) -> None:
        entries = [one for one in self._lineage.packages(package_hash) if self._sees_all(one)]
        if not entries:
            known = "" if self._lineage.has_log else f". {_NO_LOG.removesuffix('.')}"
            raise NotFound(what=f"package {package_hash!r:.80} in the recall log or in a trace{known}")
        shown = list[tuple[RecordVersion, bool]]()
        for entry in entries:
            package = self._add_package(entry, Side.START, True, 0)
            for version in self._visible(self._lineage.shown_versions(entry)):
                if self._add_record(version, Side.CAUSE, True, 1):
                    self._link(_record_id(version.place), package, LinkKind.SHOWN)
                    shown.append((version, True))
        self._trace_causes(shown)
        self._trace_reach(self._written_after(entries, Side.START, True, 0))

    def _start_with_run(self, run_id: str) -> None:
        written = self._visible(self._lineage.written_in([run_id])[run_id])
        entries = [one for one in self._lineage.recalls_of_run(run_id) if self._sees_all(one)]
        if not written and not entries:
            raise NotFound(what=f"run {run_id!r:.80} that recalled or wrote anything")
        self._add_run(run_id, Side.START, True, 0)
        started = list[tuple[RecordVersion, bool]]()
        for version in written:
            if version.record is not None and self._add_record(version, Side.REACH, True, 1):
                self._link(_run_id(run_id), _record_id(version.place), LinkKind.WROTE)
                started.append((version, True))
        recalled = list[tuple[RecordVersion, bool]]()
        for entry in entries:
            recalled += self._add_recall(entry, 1, is_certain=True)
        self._trace_causes([*started, *recalled])
        self._trace_reach(started)

    # Causes.

    def _trace_causes(self, start: Sequence[tuple[RecordVersion, bool]]) -> None:
        """Follow what versions cite and what their runs had recalled, back to where it entered."""
        level = list(start)
        followed = self._followed[Side.CAUSE]
        for steps in range(1, MAX_INVESTIGATION_STEPS + 1):
            # Certain ones first: what is reached both ways is certain.
            level.sort(key=lambda one: (not one[1], one[0].place))
            behind = list[tuple[RecordVersion, bool]]()
            for version, is_certain in level:
                if followed.get(version.place, False) or (version.place in followed and not is_certain):
                    continue
                followed[version.place] = is_certain
                behind += self._causes_of(version, steps, is_certain)
            level = behind
            if not level:
                return

    def _causes_of(
        self, version: RecordVersion, steps: int, is_certain: bool
    ) -> list[tuple[RecordVersion, bool]]:
        """Add where a version came from, and return the records to follow from there."""
        own = _record_id(version.place)
        record, written = version.record, self._lineage.written_by([version.place.snapshot])
        writer = written[version.place.snapshot]
        if record is not None and record.source is not None:
            source = self._add_source(record.source, is_certain, steps)
            self._link(source, own, LinkKind.SAID)
        run = self._add_run(writer.run_id, Side.CAUSE, is_certain, steps, at=writer.at, caller=writer.caller)
        self._link(run, own, LinkKind.WROTE)
        behind = list[tuple[RecordVersion, bool]]()
        for cited in self._visible(self._lineage.cited(version)):
            if self._add_record(cited, Side.CAUSE, is_certain, steps):
                self._link(_record_id(cited.place), own, LinkKind.CITED)
                behind.append((cited, is_certain))
        for entry in self._lineage.recalls_of_run(writer.run_id):
            if entry.snapshot < version.place.snapshot and self._sees_all(entry):
                behind += self._add_recall(entry, steps, is_certain=False)
                self._link(run, own, LinkKind.WRITTEN_AFTER)
        return behind

    def _add_recall(
        self, entry: RecallEntry, steps: int, *, is_certain: bool
    ) -> list[tuple[RecordVersion, bool]]:
        """Add a package that a run had been handed, and return the records that it showed."""
        package = self._add_package(entry, Side.CAUSE, is_certain, steps)
        self._link(package, _run_id(entry.run_id), LinkKind.HANDED)
        behind = list[tuple[RecordVersion, bool]]()
        for shown in self._visible(self._lineage.shown_versions(entry)):
            if self._add_record(shown, Side.CAUSE, is_certain, steps + 1):
                self._link(_record_id(shown.place), package, LinkKind.SHOWN)
                behind.append((shown, is_certain))
        return behind

    # Reach.

    def _trace_reach(self, start: Sequence[tuple[RecordVersion, bool]]) -> None:
        """Follow what cites versions, and what runs wrote after they were handed them, to the present."""
        level = list(start)
        followed = self._followed[Side.REACH]
        for steps in range(1, MAX_INVESTIGATION_STEPS + 1):
            level.sort(key=lambda one: (not one[1], one[0].place))
            new = dict[RecordPlace, tuple[RecordVersion, bool]]()
            for version, is_certain in level:
                if not (followed.get(version.place, False) or (version.place in followed and not is_certain)):
                    followed[version.place] = is_certain
                    new[version.place] = version, is_certain
            if not new:
                return
            level = self._cited_by(list(new.values()), steps)
            entries = list[tuple[RecallEntry, bool]]()
            for version, is_certain in new.values():
                self._add_replacements(version, steps)
                for entry in filter(self._sees_all, self._lineage.shown_in(version)):
                    package = self._add_package(entry, Side.REACH, is_certain, steps)
                    self._link(_record_id(version.place), package, LinkKind.SHOWN)
                    entries.append((entry, is_certain))
            for certain in (True, False):
                handed = [entry for entry, is_certain in entries if is_certain is certain]
                level += self._written_after(handed, Side.REACH, certain, steps)

    def _cited_by(
        self, cited: Sequence[tuple[RecordVersion, bool]], steps: int
    ) -> list[tuple[RecordVersion, bool]]:
        certainty = {version.place: is_certain for version, is_certain in cited}
        found = list[tuple[RecordVersion, bool]]()
        for parent, child in self._lineage.citing([version for version, _ in cited]):
            is_certain = certainty[parent.place]
            if self._sees(child.place.scope) and self._add_record(child, Side.REACH, is_certain, steps):
                self._link(_record_id(parent.place), _record_id(child.place), LinkKind.CITED)
                found.append((child, is_certain))
        return found

    def _add_replacements(self, version: RecordVersion, steps: int) -> None:
        """Add what took the place of a version. It does not rest on it, so that it is not followed."""
        for later in self._visible(self._lineage.replaced_by(version)):
            node_id = _record_id(later.place)
            if node_id in self._nodes or self._add_record(later, Side.REACH, True, steps, replaces=True):
                self._link(_record_id(version.place), node_id, LinkKind.REPLACED)

    def _written_after(
        self, entries: Sequence[RecallEntry], side: Side, is_certain: bool, steps: int
    ) -> list[tuple[RecordVersion, bool]]:
        """Add the runs that were handed packages, and what each wrote afterwards."""
        by_run: dict[str, list[RecallEntry]] = {}
        for entry in entries:
            if entry.run_id:
                by_run.setdefault(entry.run_id, []).append(entry)
        found = list[tuple[RecordVersion, bool]]()
        for run_id, written in self._lineage.written_in(sorted(by_run)).items():
            first = min(entry.snapshot for entry in by_run[run_id])
            caller = by_run[run_id][0].caller
            run = self._add_run(
                run_id, Side.REACH, is_certain, steps + 1, at=by_run[run_id][0].at, caller=caller
            )
            for entry in by_run[run_id]:
                self._link(self._add_package(entry, side, is_certain, steps), run, LinkKind.HANDED)
            for version in self._visible(written):
                if version.place.snapshot <= first or version.record is None:
                    continue
                if self._add_record(version, Side.REACH, False, steps + 1):
                    self._link(run, _record_id(version.place), LinkKind.WRITTEN_AFTER)
                    found.append((version, False))
        return found

    # Nodes and links.

    def _visible(self, versions: Iterable[RecordVersion]) -> list[RecordVersion]:
        return [one for one in versions if self._sees(one.place.scope)]

    def _sees_all(self, entry: RecallEntry) -> bool:
        return all(map(self._sees, entry.scopes))

    def _put(self, node: InvestigationNode) -> bool:
        """Add a node, or make a known one certain. False if there is no room for it."""
        known = self._nodes.get(node.node_id)
        if known is None and len(self._nodes) >= MAX_INVESTIGATION_NODES:
            self._left_out.add(node.node_id)
            return False
        if known is None or (known.side is not Side.START and _is_stronger(node, known)):
            self._nodes[node.node_id] = node
        return True

    def _add_record(
        self, version: RecordVersion, side: Side, is_certain: bool, steps: int, *, replaces: bool = False
    ) -> bool:
        place, record = version.place, version.record
        known = self._nodes.get(_record_id(place))
        is_as_sure = known is not None and known.side is side and (known.is_certain or not is_certain)
        if known is not None and not known.is_replacement and (known.side is Side.START or is_as_sure):
            return True
        state = self._state_of(version)
        written = self._lineage.written_by([place.snapshot])[place.snapshot]
        is_shown = record is not None and (self._shows_quarantined or state is not RecordState.QUARANTINED)
        source = {} if record is None or record.source is None else record.source
        return self._put(
            InvestigationNode(
                node_id=_record_id(place),
                kind=NodeKind.RECORD,
                label=f"{place.name} in {place.scope}" + (", which replaced it" if replaces else ""),
                is_replacement=replaces,
                side=side,
                is_certain=is_certain,
                steps=steps,
                scope=place.scope,
                memory_id=place.name if record is None else record.memory_id,
                snapshot=place.snapshot,
                at=written.at,
                run_id=written.run_id,
                caller=written.caller,
                source=f"{source.get('kind', '')}:{source.get('id', '')}" if source else "",
                origin="" if record is None else str(record.origin),
                verdict="" if record is None or record.verdict is None else record.verdict.value,
                evidence_hash="" if record is None or record.evidence is None else record.evidence.hash,
                state=state,
                text=record.text if record is not None and is_shown else "",
            )
        )

    def _state_of(self, version: RecordVersion) -> RecordState:
        if version.record is None:
            return RecordState.ERASED
        if version.place.snapshot in self._hidden.versions.get(version.key, ()):
            return RecordState.QUARANTINED
        now = self._lineage.shown(version.key, self._lineage.head)
        if now is None or now.content is None:
            return RecordState.ENDED
        is_current = now.memory_snapshot_id == version.place.snapshot
        return RecordState.CURRENT if is_current else RecordState.REPLACED

    def _add_run(
        self, run_id: str, side: Side, is_certain: bool, steps: int, *, at: str = "", caller: str = ""
    ) -> str:
        node_id = _run_id(run_id)
        self._put(
            InvestigationNode(
                node_id=node_id,
                kind=NodeKind.RUN,
                label=f"run {run_id}",
                side=side,
                is_certain=is_certain,
                steps=steps,
                run_id=run_id,
                at=at,
                caller=caller,
            )
        )
        return node_id

    def _add_package(self, entry: RecallEntry, side: Side, is_certain: bool, steps: int) -> str:
        node_id = f"package:{entry.package_hash}"
        self._put(
            InvestigationNode(
                node_id=node_id,
                kind=NodeKind.PACKAGE,
                label=f"package {entry.package_hash[:12]} of {', '.join(entry.scopes)}",
                side=side,
                is_certain=is_certain,
                steps=steps,
                scope=", ".join(entry.scopes),
                snapshot=entry.snapshot,
                at=entry.at,
                run_id=entry.run_id,
                caller=entry.caller,
            )
        )
        return node_id

    def _add_source(self, source: dict[str, object], is_certain: bool, steps: int) -> str:
        name = f"{source.get('kind', '')}:{source.get('id', '')}"
        self._put(
            InvestigationNode(
                node_id=f"source:{name}",
                kind=NodeKind.SOURCE,
                label=name,
                side=Side.CAUSE,
                is_certain=is_certain,
                steps=steps,
                source=name,
            )
        )
        return f"source:{name}"

    def _link(self, from_id: str, to_id: str, kind: LinkKind) -> None:
        if from_id in self._nodes and to_id in self._nodes and from_id != to_id:
            link = InvestigationLink(from_id=from_id, to_id=to_id, kind=kind, is_certain=kind.is_certain)
            self._links[from_id, to_id, kind] = link

    def _found(self, asked: InvestigateRequest) -> Investigation:
        order = list(Side)
        nodes = sorted(
            self._nodes.values(),
            key=lambda one: (order.index(one.side), not one.is_certain, one.steps, one.node_id),
        )
        links = [self._links[key] for key in sorted(self._links)]
        return Investigation(
            asked=asked.as_json(),
            namespace=self._namespace,
            memory_snapshot_id=self._lineage.head,
            nodes=tuple(nodes),
            links=tuple(links),
            left_out=len(self._left_out - self._nodes.keys()),
            notes=() if self._lineage.has_log else (_NO_LOG,),
        )


def _is_stronger(node: InvestigationNode, known: InvestigationNode) -> bool:
    """Whether a node says more than what is known of it: what is certain, or that it rests on the start.

    What a run had read before it wrote may itself rest on an earlier part of the start.
    """
    if node.is_replacement != known.is_replacement:
        return known.is_replacement
    if node.is_certain != known.is_certain:
        return node.is_certain
    return node.side is Side.REACH and known.side is Side.CAUSE and not node.is_certain


def _record_id(place: RecordPlace) -> str:
    return f"record:{place.scope}//{place.name}@{place.snapshot}"


def _run_id(run_id: str) -> str:
    return f"run:{run_id}"
