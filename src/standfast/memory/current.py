"""What is current in a scope: its profile, what disagrees in it, and how that is settled.

Everything is read from the records of one snapshot: subjects, pins and the plain statements that were read
when a text was remembered (``records/statements.py``). No model is asked. Nothing is hidden or ended by a
guess: a conflict ends when somebody settles it, by a record that supersedes the others, with evidence.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from standfast.errors import InvalidValue, NotAuthorised
from standfast.govern.approvals.queue import ApprovalQueue
from standfast.govern.authority import Role
from standfast.limits import (
    DEFAULT_RECALL_TOKENS,
    MAX_NAME_CHARS,
    MAX_SINGLE_CALL_ATTEMPTS,
    MAX_SUPERSEDED,
)
from standfast.memory.retries import RetryLines
from standfast.memory.run import Run
from standfast.memory.snapshot_view import SnapshotReader
from standfast.recall.analysis import IndexedRecord, decode_record, sentences_of
from standfast.recall.filters import UNREVIEWED_VERDICTS, validity_at
from standfast.recall.index.store_index import path_of
from standfast.recall.newest_first import are_of_one_set
from standfast.recall.package import (
    RecallItem,
    SealedPackage,
    excerpt_line,
    group_line,
    heading,
    mark_of,
    plain_items,
    text_parts,
)
from standfast.recall.packing import record_hash_of
from standfast.recall.tokens import EstimatedCounter, TokenCounter
from standfast.records.canon import fingerprint
from standfast.records.filters import LAW, trust_of
from standfast.records.origins import Origin, disputed_in
from standfast.records.requests import RECALLED_BANDS, RememberRequest
from standfast.records.scopes import ALL_SCOPES, SHARED, checked_scope, listed_scope, prefix_of, scoped_key
from standfast.records.statements import NO, PlainStatement, differs, statements_of
from standfast.records.timestamps import MISSING, time_of
from standfast.records.vocabulary import Band, Remembered, Value
from standfast.store.stored_records import erased_since

PROFILE_VERSION: Final = "profile-v1"
_WHOLE_CHARS: Final = 200
"""Of a longer text only the sentences with a current statement are shown."""
_TYPICAL_MARK: Final = "9c7"
_LEAST_TOKENS: Final = 6
"""Nothing fits less than this."""
BOTH: Final = "both"
NEITHER: Final = "neither"


class LeftOut(Value, frozen=True, kw_only=True):
    """A record that could be in a profile and is not, and why."""

    memory_id: str
    reason: str


class Profile(SealedPackage, frozen=True, kw_only=True):
    """What memory knows about the owner of a scope now: ``text`` for a prompt, ``items`` to render.

    The same scope and budget on the same snapshot give the same profile, to the byte.

    Attributes:
        items: Pinned records first, then the current value of each subject and matter, the newest first.
        left_out: What could be there and is not, and why.
        others: How many more records there are, which have neither a subject nor a plain statement.
    """

    controller_version: str = PROFILE_VERSION
    scope: str
    memory_snapshot_id: int
    tokens: int
    counter: str
    items: tuple[RecallItem, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    others: int = 0

    def as_json(self) -> dict[str, Any]:
        """The profile as commands and servers print it."""
        plain = super().as_json()
        return {**plain, "items": plain_items(plain["items"]), "left_out": list(plain["left_out"])}

    @property
    def asked(self) -> tuple[object, ...]:
        """Scope, snapshot, budget and version."""
        return self.scope, self.memory_snapshot_id, self.tokens, self.counter, self.controller_version

    @property
    def text(self) -> str:
        """The profile for a prompt; empty if nothing is known."""
        return "".join(text_parts(self.items, mark_of(self.items, self.package_hash)))


class ConflictEntry(Value, frozen=True, kw_only=True):
    """One side of a conflict.

    Attributes:
        value: What it says about the matter; its text for a subject.
        is_first: Whether recall shows it first.
    """

    memory_id: str
    text: str
    value: str
    ts_utc: str | None
    source: str
    trust: str
    is_first: bool


class Conflict(Value, frozen=True, kw_only=True):
    """Records of one scope that say different things about one matter, the newest first.

    Of many sides the newest 64 are listed, as many as one record can end. When those are settled, the older
    ones are a conflict with what holds.

    Attributes:
        conflict_id: Names it for ``settle``. It changes when a record is added or ends.
        about: The matter in words: who, and what about them.
    """

    conflict_id: str
    scope: str
    about: str
    entries: tuple[ConflictEntry, ...]


class Settlement(Value, frozen=True, kw_only=True):
    """How a conflict was settled, or would be: which records end, and what is remembered instead.

    ``remembered`` is None in a rehearsal, and if it could not be settled; then ``problem`` says why.
    """

    conflict_id: str
    keep: str
    ended: tuple[str, ...]
    text: str
    remembered: Remembered | None = None
    problem: str = ""


class _Row(NamedTuple):
    """A record with its store's path and how new it is: its time, then the snapshot that wrote it."""

    path: str
    record: IndexedRecord
    newness: tuple[int, int, str, str]

    @property
    def counts(self) -> bool:
        """Whether it may stand for what is current: it is accepted, and not untrusted."""
        is_waiting = self.record.verdict in UNREVIEWED_VERDICTS
        return not is_waiting and trust_of(self.record) != Origin.UNTRUSTED

    def over_at(self, now: int) -> str:
        """Why it does not hold at a time; empty if it does."""
        return validity_at(self.record.valid_from, self.record.valid_until, now)


class _SettlingAct(NamedTuple):
    """Who settles, why and how; see ``CurrentFacts.settle``."""

    reason: str
    by: str
    role: str
    rehearse: bool
    propose: bool
    max_origin: Origin | str


class CurrentFacts:
    """What is current in the scopes of one namespace. ``memory.current`` is it.

    Args:
        open_run: Opens a writing run by workflow, agent, run id and the most that it may be trusted.
        lines: Who tries again first.
    """

    def __init__(self, reader: SnapshotReader, open_run: Callable[..., Run], lines: RetryLines) -> None:
        self._reader, self._open_run, self._lines = reader, open_run, lines

    # Profile.

    def profile(
        self,
        scope: str = SHARED,
        *,
        tokens: int = DEFAULT_RECALL_TOKENS,
        at: int | None = None,
        token_counter: TokenCounter | None = None,
    ) -> Profile:
        """Return what memory knows about the owner of a scope: pinned facts, then the current value of each
        subject and of each matter that a plain statement is on, the newest first.

            prompt = memory.profile("user/ada", tokens=300).text

        Args:
            scope: The scope, with all below it.
            tokens: The most tokens that the text may have.
            at: A snapshot; by default the newest.
            token_counter: Counts tokens; by default four bytes are a token.
        """
        checked_scope(scope)
        if type(tokens) is not int or tokens < 1:
            raise InvalidValue(
                what="tokens", problem=f"it must be a whole number from 1 on, not {tokens!r:.40}"
            )
        counter = token_counter or EstimatedCounter()
        snapshot = self._reader.store.head() if at is None else at
        rows = list(self._rows(scope, snapshot))
        chosen, left_out = self._current(rows, self._reader.instant_of(snapshot))
        profile = Profile(
            scope=scope,
            memory_snapshot_id=snapshot,
            tokens=tokens,
            counter=counter.name,
            others=len(rows) - len(chosen) - len(left_out),
        )
        fitted = _fitted(profile, chosen, left_out, counter)
        store, namespace = self._reader.store, self._reader.namespace
        erased = erased_since(store, namespace, RECALLED_BANDS, snapshot, head=store.head(), scopes=(scope,))
        return fitted if erased is None else fitted.with_erased(erased)

    def _rows(self, scope: str, at: int) -> Iterator[_Row]:
        """The records that a snapshot shows in a scope with all below it; law hides what it replaces."""
        self._reader.require_readable("read what is current")
        store, namespace = self._reader.store, self._reader.namespace
        law = set[tuple[str, str]]()
        for band in RECALLED_BANDS:
            for version in store.scan(namespace, prefix=prefix_of(band, scope), at=at):
                record = decode_record(version.content or b"")
                place = record.scope, record.memory_id
                if band is Band.VAULT:
                    law.add(place)
                elif place in law:
                    continue
                path = path_of(namespace, band, record.scope)
                yield _Row(path, record, (record.time, version.memory_snapshot_id, *place))

    def _current(
        self, rows: Sequence[_Row], instant: str | None
    ) -> tuple[list[tuple[_Row, bool]], list[LeftOut]]:
        """The rows of a profile in order, each with whether it is pinned; and what is left out of it."""
        now = MISSING if instant is None else time_of(instant)
        newest = _newest_by_matter(row for row in rows if row.counts and not row.over_at(now))
        chosen, left_out = list[tuple[_Row, bool]](), list[LeftOut]()
        for row in sorted(rows, key=lambda row: row.newness, reverse=True):
            record = row.record
            statements = _telling(record)
            later = [
                said[0] for one in statements if (said := newest.get((record.scope, one.matter))) is not None
            ]
            is_pinned = record.pinned is True and trust_of(record) in (LAW, Origin.TRUSTED)
            if not (record.subject or statements or is_pinned):
                continue
            reason = ""
            if not row.counts:
                is_untrusted = trust_of(record) == Origin.UNTRUSTED
                reason = "it is untrusted" if is_untrusted else "it needs review"
            elif problem := row.over_at(now):
                reason = problem
            elif statements and not (record.subject or is_pinned) and all(one is not row for one in later):
                reason = f"said later: {later[0].record.memory_id}"
            if reason:
                left_out.append(LeftOut(memory_id=record.memory_id, reason=reason))
            else:
                chosen.append((row, is_pinned))
        return sorted(chosen, key=lambda one: not one[1]), left_out

    # Conflicts.

    def conflicts(self, *, scope: str = SHARED, at: int | None = None) -> list[Conflict]:
        """Return what disagrees in a scope: records with the same subject, with plain statements on one
        matter that have different values, or of which one was meant to replace the other and may not.

        Args:
            scope: The scope, with all below it; ``"*"`` for all.
            at: A snapshot; by default the newest.
        """
        snapshot = self._reader.store.head() if at is None else at
        instant = self._reader.instant_of(snapshot)
        now = MISSING if instant is None else time_of(instant)
        groups: dict[tuple[str, str], list[tuple[_Row, str]]] = {}
        rows: dict[tuple[str, object], _Row] = {}
        for row in self._rows(listed_scope(scope), snapshot):
            record = row.record
            if row.over_at(now) or record.verdict in UNREVIEWED_VERDICTS:
                continue
            if record.subject is not None and not record.several:
                groups.setdefault((record.scope, record.subject), []).append((row, record.text))
            rows[record.scope, record.memory_id] = row
            for one in record.statements if row.counts else ():
                groups.setdefault((record.scope, one.matter), []).append((row, one.value))
        for (place, _), row in rows.items():
            for name in disputed_in(row.record.refs) if row.counts else ():
                if (other := rows.get((place, name))) is not None:
                    sides = [(one, one.record.text) for one in (row, other)]
                    groups[place, f"what is said to replace {name}"] = sides
        found = [_conflict(*place, sides) for place, sides in sorted(groups.items()) if _disagree(sides)]
        by_records: dict[tuple[str, ...], Conflict] = {}
        for conflict in found:
            # Two matters of the same two records are one conflict.
            by_records.setdefault(tuple(one.memory_id for one in conflict.entries), conflict)
        return list(by_records.values())

    def settle(
        self,
        conflict_id: str,
        keep: str,
        *,
        reason: str,
        by: str = "operator",
        role: str = Role.AGENT,
        scope: str = SHARED,
        rehearse: bool = False,
        propose: bool = False,
        max_origin: Origin | str = Origin.TRUSTED,
    ) -> Settlement:
        """Settle a conflict: keep one record, both of two with the time in which each holds, or neither.

        What ends is superseded by a new record, with evidence; nothing is erased, and history has all of it.

        Args:
            conflict_id: As ``conflicts`` names it.
            keep: The id of the record that holds, ``"both"`` (the older held until the newer was said), or
                ``"neither"``.
            reason: Why; it is part of the record.
            by: Who settles it.
            role: ``"human"`` for a person. An agent or a model can't end what a trusted user said.
            scope: Where the conflict is, as for ``conflicts``.
            rehearse: Change nothing, and say what would be done.
            propose: End nothing yet: it waits as a proposal, which a person accepts or rejects. So a model
                can propose to end what a trusted user said.
            max_origin: The most that whoever settles it may be trusted.

        Raises:
            InvalidValue: There is no such conflict any more, or ``keep`` names none of its records.
            NotAuthorised: An agent would end what a trusted user said.
        """
        conflict = next((one for one in self.conflicts(scope=scope) if one.conflict_id == conflict_id), None)
        if conflict is None:
            raise _no_conflict(conflict_id)
        act = _SettlingAct(reason, by, role, rehearse, propose, max_origin)
        if (settlement := self._settled(conflict, keep, act)) is None:
            raise _no_conflict(conflict_id)
        return settlement

    def settle_all(
        self,
        *,
        reason: str,
        by: str = "operator",
        role: str = Role.AGENT,
        scope: str = ALL_SCOPES,
        rehearse: bool = False,
        propose: bool = False,
        max_origin: Origin | str = Origin.TRUSTED,
    ) -> list[Settlement]:
        """Settle every conflict of a scope by keeping what was said last, which recall shows first.

        What could not be settled is in the answer with its ``problem``. Rehearse it first.

        Args:
            scope: The scope, with all below it; by default all.
            reason: Why, as for ``settle``; so are the others.
        """
        done = []
        act = _SettlingAct(reason, by, role, rehearse, propose, max_origin)
        for conflict in self.conflicts(scope=scope):
            kept = conflict.entries[0]
            try:
                settlement = self._settled(conflict, kept.memory_id, act)
                # None if it was settled with another one, or by somebody else.
                done += [] if settlement is None else [settlement]
            except NotAuthorised as error:
                named = conflict.conflict_id
                done.append(
                    Settlement(
                        conflict_id=named, keep=kept.memory_id, ended=(), text=kept.text, problem=str(error)
                    )
                )
        return done

    def _settled(self, conflict: Conflict, keep: str, act: _SettlingAct) -> Settlement | None:
        """Settle a conflict; None if not all of its sides are there any more."""
        reason, by, role, rehearse, propose, max_origin = act
        if not (isinstance(reason, str) and reason.strip()):
            raise InvalidValue(what="reason", problem="it must say why, in a few words")
        ids = [one.memory_id for one in conflict.entries]
        first, last = conflict.entries[0].ts_utc or "", conflict.entries[-1].ts_utc or ""
        may_keep_both = len(ids) == 2 and first > last
        if keep not in (*ids, NEITHER) and not (keep == BOTH and may_keep_both):
            problem = (
                f"it must be one of {', '.join(ids)}, {NEITHER!r}, or {BOTH!r} for two of different times"
            )
            raise InvalidValue(what="keep", problem=problem)
        ended = [one for one in conflict.entries if one.memory_id != keep]
        if keep == BOTH:
            ended = [conflict.entries[-1]]
        is_person = role == Role.HUMAN
        if not (is_person or propose) and any(one.trust in (Origin.TRUSTED, LAW) for one in ended):
            raise NotAuthorised(
                role=Role.AGENT.value, act="end what a trusted user said", who=Role.HUMAN.value
            )
        fields = _settling_fields(conflict, keep)
        settlement = Settlement(
            conflict_id=conflict.conflict_id,
            keep=keep,
            ended=tuple(one.memory_id for one in ended),
            text=fields.pop("text"),
        )
        if rehearse:
            return settlement
        request = RememberRequest.of(
            settlement.text,
            scope=conflict.scope,
            supersedes=settlement.ended,
            source={"kind": "user" if is_person else "agent", "id": by},
            role=role,
            hold=f"{by} proposes: {reason}"[:MAX_NAME_CHARS] if propose else None,
            metadata={"settled": conflict.conflict_id, "settled_by": by, "settled_because": reason[:500]},
            **fields,
        )

        def attempt() -> Remembered | None:
            if propose and (earlier := self._proposed(request)) is not None:
                return earlier
            with self._open_run("memory", None, None, max_origin) as run:
                if not self._is_held(conflict, at=run.identity.memory_snapshot_id):
                    return None
                answer = run.remember_request(request)
            (committed,) = run.answers or [answer]
            return replace(committed, receipt=run.receipt)

        line = f"settle {conflict.conflict_id}"
        remembered = self._lines.retry(attempt, key=line, attempts=MAX_SINGLE_CALL_ATTEMPTS)
        if remembered is None:
            return None
        if remembered.accepted or remembered.needs_review:
            return replace(settlement, remembered=remembered)
        return replace(settlement, ended=(), remembered=remembered, problem=remembered.reason)

    def _proposed(self, request: RememberRequest) -> Remembered | None:
        """The same settlement if it waits for a person already, whoever proposed it."""
        queue = ApprovalQueue(self._reader.store, self._reader.namespace, clock=self._reader.store.clock)
        for waiting in queue.waiting():
            record, settled = waiting.record, (waiting.record.metadata or {}).get("settled")
            is_same = record.text == request.text and set(record.supersedes) == set(request.supersedes)
            if is_same and settled == request.metadata["settled"]:
                assert record.verdict is not None, "what waits was judged"
                named = waiting.proposal.proposal_id
                return Remembered(
                    memory_id=record.memory_id,
                    verdict=record.verdict,
                    bands=(record.band,),
                    reasons=(f"it is proposed already, as {named}",),
                    proposal_id=named,
                )
        return None

    def _is_held(self, conflict: Conflict, *, at: int) -> bool:
        """Whether a snapshot shows all sides of a conflict."""
        store, namespace = self._reader.store, self._reader.namespace
        return all(
            store.read(
                namespace, [scoped_key(band, conflict.scope, one.memory_id) for band in RECALLED_BANDS], at=at
            )
            for one in conflict.entries
        )


def _no_conflict(conflict_id: str) -> InvalidValue:
    problem = f"there is no conflict {conflict_id!r:.40} now; list them again with conflicts"
    return InvalidValue(what="conflict_id", problem=problem)


def _newest_by_matter(rows: Iterable[_Row]) -> dict[tuple[str, str], tuple[_Row, str]]:
    """For each scope and matter, the row that was said last, and its value."""
    newest: dict[tuple[str, str], tuple[_Row, str]] = {}
    for row in rows:
        for one in row.record.statements:
            place = row.record.scope, one.matter
            if place not in newest or newest[place][0].newness < row.newness:
                newest[place] = row, one.value
    return newest


def _telling(record: IndexedRecord) -> list[PlainStatement]:
    """The statements of a record that say something about their holder which is worth a line.

    What somebody does or is counts if the record says nothing more exact. In a conversation people say many
    things that they do once: there only likes and denials count.
    """
    exact = [one for one in record.statements if not one.attribute.startswith("does ")]
    return exact or [
        one
        for one in record.statements
        if not record.is_threaded or one.value == NO or one.attribute.startswith("does like ")
    ]


def _fitted(
    profile: Profile, chosen: Sequence[tuple[_Row, bool]], left_out: Sequence[LeftOut], counter: TokenCounter
) -> Profile:
    """The profile with the first rows that fit its budget."""
    left = profile.tokens - counter.count(heading(_TYPICAL_MARK))
    items: list[RecallItem] = []
    too_much: list[LeftOut] = []
    groups = set[tuple[str, ...]]()
    for row, is_pinned in chosen:
        item = _item(row, len(items) + 1, is_pinned) if left >= _LEAST_TOKENS else None
        cost = 0
        if item is not None:
            line = "" if item.group in groups else group_line(_TYPICAL_MARK, item)
            # Parts of a text may have a token more than the whole.
            cost = counter.count(line + excerpt_line(_TYPICAL_MARK, item)) + 1
        if item is None or cost > left:
            too_much.append(LeftOut(memory_id=row.record.memory_id, reason="budget_exhausted"))
            continue
        left -= cost
        groups.add(item.group)
        items.append(replace(item, record_hash=record_hash_of(row.record)))
    while True:
        fitted = replace(profile, items=tuple(items), left_out=(*too_much, *left_out)).with_hash()
        if not items or counter.count(fitted.text) <= profile.tokens:
            return fitted
        too_much.insert(0, LeftOut(memory_id=items.pop().memory_id, reason="budget_exhausted"))


def _item(row: _Row, rank: int, is_pinned: bool) -> RecallItem:
    record = row.record
    return RecallItem(
        memory_id=record.memory_id,
        record_hash="",
        store_path=row.path,
        rank=rank,
        score=0,
        excerpt=_telling_part(record),
        date=record.date,
        source=record.source_name,
        verdict=record.verdict,
        trust=trust_of(record),
        subject=record.subject,
        ts_utc=record.ts_utc,
        session=record.session,
        position=record.position,
        speaker=record.speaker,
        pinned=is_pinned,
    )


def _telling_part(record: IndexedRecord) -> str:
    """A text, or the sentences of a long one that have a statement."""
    text = record.text.strip()
    if len(text) <= _WHOLE_CHARS:
        return text
    matters = {one.matter for one in _telling(record)}
    telling = [
        sentence.strip()
        for sentence in sentences_of(text)
        if not matters.isdisjoint(
            one.matter
            for one in statements_of(
                sentence, speaker=record.speaker, scope=record.scope, is_message=record.is_threaded
            )
        )
    ]
    return " … ".join(telling) or f"{text[:_WHOLE_CHARS].rsplit(' ', 1)[0]} …"


def _disagree(sides: Sequence[tuple[_Row, str]]) -> bool:
    return any(
        differs(value, other) and not are_of_one_set(row.record, another.record)
        for (row, value), (another, other) in combinations(sides, 2)
    )


def _conflict(scope: str, matter: str, sides: Sequence[tuple[_Row, str]]) -> Conflict:
    ordered = sorted(sides, key=lambda side: side[0].newness, reverse=True)
    # What is untrusted is never shown before what is not.
    ordered.sort(key=lambda side: trust_of(side[0].record) == Origin.UNTRUSTED)
    entries = {
        row.record.memory_id: ConflictEntry(
            memory_id=row.record.memory_id,
            text=row.record.text,
            value=value,
            ts_utc=row.record.ts_utc,
            source=row.record.source_name,
            trust=trust_of(row.record),
            is_first=row is ordered[0][0],
        )
        for row, value in reversed(ordered)
    }
    listed = tuple(reversed(entries.values()))[:MAX_SUPERSEDED]
    holder, _, attribute = matter.rpartition("\n")
    conflict_id = fingerprint(["conflict/v1", scope, matter, [one.memory_id for one in listed]])[:16]
    about = f"{'the user' if holder == '@' else holder}: {attribute}" if holder else attribute
    return Conflict(conflict_id=conflict_id, scope=scope, about=about, entries=listed)


def _settling_fields(conflict: Conflict, keep: str) -> dict[str, Any]:
    """What is remembered to settle a conflict: its text, and the time in which it holds."""
    newest, oldest = conflict.entries[0], conflict.entries[-1]
    if keep == NEITHER:
        texts = " and ".join(f'"{one.text}"' for one in conflict.entries)
        return {"text": f"It is not known any more what holds: {texts} were withdrawn."}
    if keep == BOTH:
        until = (newest.ts_utc or "")[:10]
        text = f"{oldest.text} (This held until {until}.)"
        return {"text": text, "time": oldest.ts_utc, "valid_until": newest.ts_utc}
    (kept,) = [one for one in conflict.entries if one.memory_id == keep]
    return {"text": kept.text}
