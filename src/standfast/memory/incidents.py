"""Incidents: from a wrong answer to its cause, its reach and its undoing.

``memory.incidents`` answers requests that were checked before. ``IncidentVerbs`` are the verbs of ``memory``.
"""

from collections.abc import Callable
from typing import Literal, Unpack, overload

from standfast.errors import InvalidValue
from standfast.limits import MAX_PAGE_ITEMS, SAFE_INTEGER
from standfast.memory.investigating import Investigator
from standfast.memory.investigation import Investigation
from standfast.memory.lineage import Lineage
from standfast.memory.quarantine import (
    QuarantineAct,
    QuarantineActs,
    Quarantined,
    QuarantinedRecord,
    QuarantinePlan,
    Released,
)
from standfast.memory.run_dependencies import RunServices
from standfast.records.incident_requests import (
    InvestigateFields,
    InvestigateRequest,
    QuarantineFields,
    QuarantineRequest,
    RevertFields,
    RevertRequest,
)
from standfast.records.request_limits import checked_reason
from standfast.records.requests import takes_fields_of
from standfast.records.scopes import ALL_SCOPES, listed_scope
from standfast.records.vocabulary import shown
from standfast.traces.recall_log import RecallLog

DEFAULT_ACTOR = "memory"
"""Who acts if nobody is named."""


class MemoryIncidents:
    """Investigations and quarantine of one namespace.

    Args:
        log: The recall log; None if none is kept.
        require_writable: Raises if writing is not allowed; takes what was to be done.
    """

    def __init__(
        self,
        services: RunServices,
        log: RecallLog | None,
        *,
        require_writable: Callable[[str], None],
    ) -> None:
        self._services = services
        self._reader = services.reader
        self.log = log
        self._require_writable = require_writable
        self._acts = QuarantineActs(services, self._lineage)

    def _lineage(self, at: int | None = None) -> Lineage:
        return Lineage(self._reader, log=self.log, traces=self._services.traces, at=at)

    def answer(
        self,
        request: InvestigateRequest,
        *,
        sees: Callable[[str], bool] = lambda _: True,
        shows_quarantined: bool = True,
    ) -> Investigation:
        """Answer a request that was checked before.

        Args:
            sees: Tells of a scope whether the caller may see what is in it.
            shows_quarantined: Whether the caller may read what is in quarantine.
        """
        self._reader.require_readable("investigate")
        return Investigator(
            self._lineage(),
            self._reader.store,
            self._reader.namespace,
            sees=sees,
            shows_quarantined=shows_quarantined,
        ).investigate(request)

    def act(
        self, request: QuarantineRequest | RevertRequest, *, by: str, act_id: str | None = None
    ) -> Quarantined | QuarantinePlan:
        """Carry out a request that was checked before, or rehearse it."""
        verb = "revert" if isinstance(request, RevertRequest) else "quarantine"
        self._reader.require_readable(verb)
        if request.rehearse:
            return self._acts.plan(request, self._lineage())
        self._require_writable(verb)
        return self._acts.begin(request, self._lineage(), by=by, act_id=act_id)

    def release(self, act_id: str, *, reason: str, by: str) -> Released:
        """Take an act back; see ``Memory.release``."""
        reason = checked_reason(reason, rehearse=False)
        self._require_writable("release")
        return self._acts.release(act_id, reason=reason, by=by)

    def quarantines(self) -> list[QuarantineAct]:
        """Every act; see ``Memory.quarantines``."""
        self._reader.require_readable("list quarantines")
        return self._acts.acts()

    def quarantined(self, *, scope: str, limit: int) -> list[QuarantinedRecord]:
        """What is in quarantine now; see ``Memory.quarantined``."""
        self._reader.require_readable("list what is in quarantine")
        if type(limit) is not int or not 1 <= limit <= SAFE_INTEGER:
            problem = f"it must be a whole number from 1 to {SAFE_INTEGER:,}, not {shown(limit)}"
            raise InvalidValue(what="limit", problem=problem)
        found = self._acts.records(scope=listed_scope(scope))
        return [one for one, _ in zip(found, range(limit), strict=False)]

    def finish_abandoned(self) -> None:
        """Finish what processes that died had begun to hide or to release."""
        self._acts.finish_abandoned()


class IncidentVerbs:
    """The verbs of ``Memory`` about incidents."""

    incidents: MemoryIncidents

    @takes_fields_of(InvestigateRequest, InvestigateFields)
    def investigate(self, memory_id: str | None = None, **fields: Unpack[InvestigateFields]) -> Investigation:
        """Find where something came from and what it has touched since.

            memory.investigate(package_hash=answer.package_hash).text()
            memory.investigate(source={"kind": "tool", "id": "crm"})

        The fields are those of ``InvestigateRequest``.

        Raises:
            InvalidValue: The arguments name nothing, or too much.
            NotFound: There is no such record, package or run.
        """
        return self.incidents.answer(InvestigateRequest.of(memory_id, **fields))

    @overload
    def quarantine(
        self,
        memory_id: str | None = None,
        *,
        reason: str,
        rehearse: Literal[False] = False,
        by: str = DEFAULT_ACTOR,
        act_id: str | None = None,
        **fields: Unpack[QuarantineFields],
    ) -> Quarantined: ...

    @overload
    def quarantine(
        self,
        memory_id: str | None = None,
        *,
        reason: str = "",
        rehearse: Literal[True],
        by: str = DEFAULT_ACTOR,
        act_id: str | None = None,
        **fields: Unpack[QuarantineFields],
    ) -> QuarantinePlan: ...

    @takes_fields_of(QuarantineRequest, QuarantineFields)
    def quarantine(
        self,
        memory_id: str | None = None,
        *,
        reason: str = "",
        rehearse: bool = False,
        by: str = DEFAULT_ACTOR,
        act_id: str | None = None,
        **fields: Unpack[QuarantineFields],
    ) -> Quarantined | QuarantinePlan:
        """Take records out of recall, with what cites them, in one governed act of any size.

            memory.quarantine(source={"kind": "tool", "id": "crm"}, reason="incident 4")

        Nothing is erased or rewritten. What the records had superseded is current again. ``release`` takes
        the act back. Law stays, and is listed in the answer. If the process ends in between, repeating the
        call with its ``act_id``, or opening the memory again, finishes it. The fields are those of
        ``QuarantineRequest``.

        Args:
            by: Who does it, for the ledger.
            act_id: An id for the act; by default a new one. The same id again gives the same receipt.

        Raises:
            InvalidValue: The arguments name nothing, or too much, or a record that is not there.
        """
        return self.incidents.act(
            QuarantineRequest.of(memory_id, reason=reason, rehearse=rehearse, **fields), by=by, act_id=act_id
        )

    @overload
    def revert(
        self,
        *,
        reason: str,
        rehearse: Literal[False] = False,
        by: str = DEFAULT_ACTOR,
        act_id: str | None = None,
        **fields: Unpack[RevertFields],
    ) -> Quarantined: ...

    @overload
    def revert(
        self,
        *,
        reason: str = "",
        rehearse: Literal[True],
        by: str = DEFAULT_ACTOR,
        act_id: str | None = None,
        **fields: Unpack[RevertFields],
    ) -> QuarantinePlan: ...

    @takes_fields_of(RevertRequest, RevertFields)
    def revert(
        self,
        *,
        reason: str = "",
        rehearse: bool = False,
        by: str = DEFAULT_ACTOR,
        act_id: str | None = None,
        **fields: Unpack[RevertFields],
    ) -> Quarantined | QuarantinePlan:
        """Undo what a run wrote, or what was written since a snapshot.

            memory.revert(run_id=run.identity.run_id, reason="it worked on the wrong ticket")

        New records go into quarantine, and what they replaced or ended is current again. What others changed
        since is kept, and listed under ``conflicts``. ``release`` takes it back. What was forgotten stays
        forgotten. The fields are those of ``RevertRequest``.

        Args:
            by: Who does it, for the ledger.
            act_id: An id for the act; see ``quarantine``.

        Raises:
            InvalidValue: The arguments name nothing, or too much.
            NotFound: The run committed nothing here.
            NoSuchSnapshot: The snapshot is beyond the newest one.
        """
        return self.incidents.act(
            RevertRequest.of(reason=reason, rehearse=rehearse, **fields), by=by, act_id=act_id
        )

    def release(self, act_id: str, *, reason: str, by: str = DEFAULT_ACTOR) -> Released:
        """Take a quarantine or a revert back. What another act hides too stays hidden.

        Args:
            act_id: The id of the act; ``quarantines`` lists them.
            reason: Why; recorded in the ledger.
            by: Who does it, for the ledger.

        Raises:
            NotFound: There is no such act.
        """
        return self.incidents.release(act_id, reason=reason, by=by)

    def quarantines(self) -> list[QuarantineAct]:
        """Return every act of quarantine or revert, the newest last, those that were released included."""
        return self.incidents.quarantines()

    def quarantined(self, *, scope: str = ALL_SCOPES, limit: int = MAX_PAGE_ITEMS) -> list[QuarantinedRecord]:
        """Return what is in quarantine now, by scope and id, for whoever reviews it.

        Args:
            scope: The scope, with all below it; by default all.
            limit: How many at most.
        """
        return self.incidents.quarantined(scope=scope, limit=limit)
