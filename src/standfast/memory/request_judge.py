"""Judging requests to remember: those of a run, one after the other, or the one of a single call.

A request becomes a claim with an id, a source and an origin. The claim is judged against what a snapshot
shows and what the run accepted before it.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from standfast.errors import InvalidValue
from standfast.govern.admission import JudgedRecord, admit
from standfast.govern.authority import Role
from standfast.govern.judge.judge import Claim
from standfast.memory.erasure_targets import pending_erasures
from standfast.memory.judging_cache import (
    OriginLookup,
    Presence,
    RunJudgingContext,
    Superseded,
    superseded_by,
)
from standfast.memory.related import related_records, was_contradicted
from standfast.memory.run_dependencies import RunServices
from standfast.memory.run_step import Recalled
from standfast.records.canon import fingerprint, utc_text
from standfast.records.origins import Origin, origin_of
from standfast.records.requests import RememberRequest
from standfast.records.scopes import name_in, scope_in, scoped_key
from standfast.records.vocabulary import Band, Record, Remembered, RunIdentity, Verdict


class JudgedRequest(NamedTuple):
    """The outcome of a request."""

    judged: JudgedRecord
    claim: Claim
    superseded: Superseded


class RequestJudge:
    """Judges the requests of one run.

    Args:
        agent: Who wants the texts remembered. A text that names no source is its own word.
        max_origin: The most that a text may be trusted, whatever its source says.
        presence: What the caller has looked up for the first request already.
    """

    def __init__(
        self,
        services: RunServices,
        identity: RunIdentity,
        *,
        agent: str,
        max_origin: Origin,
        presence: Presence | None = None,
    ) -> None:
        self._services = services
        self._agent = agent
        self._max_origin = max_origin
        self._presence = presence
        self._contexts: dict[str, RunJudgingContext] = {}
        self._origins: dict[tuple[str, str], Origin] = {}
        self._id_start = fingerprint(["memory-id/v2", identity.run_id])[:24]
        self.identity = identity
        self.snapshot = identity.memory_snapshot_id
        """The snapshot that requests are judged by."""
        self.named = 0
        """How many ids were given out."""

    def advance(self) -> None:
        """Judge by the newest snapshot from now on. What was judged before is committed by then."""
        self.snapshot = self._services.store.head()
        self._contexts.clear()
        self._origins.clear()

    def judge(
        self,
        request: RememberRequest,
        screened: Claim,
        *,
        recalled: Sequence[Recalled] = (),
        forgotten: Collection[str] = (),
    ) -> "JudgedRequest":
        """Judge a request. The caller notes the outcome if it keeps it.

        Args:
            screened: The request's ``claim_of``, whose words were read before.
            recalled: What the run was handed, so that it is not remembered again as if it were new.
            forgotten: The keys of records that the run forgets.
        """
        services = self._services
        now = services.store.clock.now()
        source = request.source or {
            "kind": "user" if request.role == Role.HUMAN else "agent",
            "id": self._agent,
        }
        lookup = OriginLookup(services.store, services.namespace, services.origin_of_kind, at=self.snapshot)
        origin = lookup.origin_of(source, request, self._origins, self._max_origin)
        if request.pin and origin is not Origin.TRUSTED:
            raise InvalidValue(what="pin", problem=self._why_not_pinned(source))
        superseded = self._superseded(request, origin) if request.supersedes else Superseded()
        is_named = request.subject and not request.several
        record = screened.record
        record = record.with_fields(
            memory_id=request.subject if is_named else request.id_or(self._next_id()),
            ts_utc=record.ts_utc or utc_text(now),
            source=source,
            origin=origin,
            band=Band.PHOENIX if request.propose else Band.LEDGER,
        )
        record = superseded.applied_to(record)
        if not request.propose:
            record = self._context(request.place).placed(record, forgotten, keeps_pin=request.pin is None)
        claim = screened.of_record(record, request.role)
        judged, claim = self._admitted(claim, request, now, recalled, forgotten)
        return JudgedRequest(judged, claim, superseded)

    def _why_not_pinned(self, source: Mapping[str, Any]) -> str:
        """Why a text can't be pinned, and what to do."""
        only = "only what a person or an operator said can be pinned"
        if origin_of(source, self._services.origin_of_kind) is not Origin.TRUSTED:
            return f"{only}; name the person as its source, of kind user"
        if self._max_origin is not Origin.TRUSTED:
            return (
                f"{only}, and what comes through this key or server counts as {self._max_origin.value} at"
                " most, whatever its source says; use one with the origin trusted"
            )
        return f"{only}, and it cites something that is trusted less; remember it without that"

    def _superseded(self, request: RememberRequest, origin: Origin) -> Superseded:
        """What a request may end of what it names."""
        return superseded_by(
            self._services.store,
            self._services.namespace,
            request.supersedes,
            scope=request.place,
            origin=origin,
            at=self.snapshot,
            buffered=[name for scope, name in self._origins if scope == request.place],
            is_proposed=request.propose or request.hold is not None,
        )

    def note(self, judged: JudgedRecord, claim: Claim) -> None:
        """Let later requests of the run see this outcome."""
        self._origins[judged.record.scope, judged.record.memory_id] = judged.record.origin
        if judged.is_accepted:
            self._context(claim.record.scope).accept(claim)
        elif judged.witness is not None:
            self._context(claim.record.scope).accept(Claim(record=judged.witness))

    def answer_to(self, request: "JudgedRequest") -> Remembered:
        """What the caller is told, with the records that the new one may disagree with or repeat, and those
        that it did not end.
        """
        judged = request.judged
        answer = judged.answer
        if not judged.is_accepted:
            return answer
        related = related_records(self._services.reader, judged.record, at=self.snapshot)
        if any(related):
            answer = replace(answer, **related._asdict())
        reasons = request.superseded.reasons(judged.record)
        return replace(answer, reasons=(*answer.reasons, *reasons)) if reasons else answer

    def _admitted(
        self,
        claim: Claim,
        request: RememberRequest,
        now: datetime,
        recalled: Sequence[Recalled],
        forgotten: Collection[str],
    ) -> tuple[JudgedRecord, Claim]:
        """Judge a claim against what survives: neither what the run forgets nor what a pending erasure takes
        is known. What is known and is to be pinned, or no longer, is judged as a new version of it.

        Returns:
            The outcome, and the claim that was judged.
        """
        services, place = self._services, request.place
        gone = {name_in(key) for key in forgotten if scope_in(key) == place}
        handed = [one[1:] for one in recalled if one[0] == place]
        context, is_new_version = self._context(place), False
        while True:
            judged = admit(
                claim,
                context.for_claim(
                    claim, recalled=handed, forgotten=frozenset(gone), today=utc_text(now)[:10]
                ),
                judge=services.judge,
                policy=services.policy,
                run=self.identity,
                namespace=services.namespace,
                author=self._agent,
                now=now,
                minimum=None if request.hold is None else Verdict.HOLD,
                reason=request.hold or "",
                waiting=context.waiting,
            )
            known = judged.known
            if known is None or known in gone:
                judged = replace(judged, is_new_version=True) if is_new_version else judged
                return judged, claim
            if not self._is_doomed(known, place):
                repinned = None if request.pin is None else context.repinned(known, request.pin)
                if repinned is None and not self._has_returned(claim.record, known):
                    return judged, claim
                if repinned is not None and claim.record.origin.rank < repinned.origin.rank:
                    problem = "only a person or an operator can take a pin off; name them as its source"
                    raise InvalidValue(what="pin", problem=problem)
                if repinned is not None:
                    claim, is_new_version = Claim(record=repinned, role=request.role), True
            gone.add(known)

    def _has_returned(self, record: Record, known: str) -> bool:
        """Whether a record says again what is known, after something else was said about it."""
        before = self._context(record.scope).current(known)
        return before is not None and was_contradicted(
            self._services.reader, record, before, at=self.snapshot
        )

    def _is_doomed(self, memory_id: str, scope: str) -> bool:
        """Whether a record will be erased, because that was asked for before the snapshot."""
        store, namespace = self._services.store, self._services.namespace
        found = store.read(namespace, [scoped_key(Band.LEDGER, scope, memory_id)], at=self.snapshot)
        return bool(found) and bool(
            pending_erasures(store, namespace, at=self.snapshot).doomed(found.values())
        )

    def _context(self, scope: str) -> RunJudgingContext:
        context = self._contexts.get(scope)
        if context is None:
            services = self._services
            context = self._contexts[scope] = RunJudgingContext(
                services.judging_cache,
                services.store,
                services.namespace,
                self.snapshot,
                scope,
                presence=self._presence,
            )
            self._presence = None
        return context

    def _next_id(self) -> str:
        self.named += 1
        # The ids of one run follow each other, so that they are stored together.
        return f"m-{self._id_start}{self.named:08x}"
