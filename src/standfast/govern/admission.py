"""Admission: a claim is judged, gets its evidence, and is routed to the bands that its verdict allows
(888_JUDGE).

``admit`` is pure: it sees only what is passed in, and writes nothing. ``memory/commit_plan.py`` turns the
results into a commit.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from standfast.errors import TooLarge
from standfast.govern.approvals.approvals import Proposal
from standfast.govern.authority import Operation
from standfast.govern.evidence import (
    build_evidence,
    build_judged_chain,
    content_check,
    content_fingerprint,
    content_of,
    fingerprint_of_content,
    is_bound,
    logged_record,
    read_instant,
)
from standfast.govern.judge.claim import WITNESS_OF, sites_of
from standfast.govern.judge.judge import Claim, Judge, Judgement, JudgingContext
from standfast.govern.judge.secrecy import SECRECY_FLOOR, redacted_claim, redacted_text
from standfast.govern.judge.text_reading import computed_once
from standfast.govern.patterns import Incident, incidents_of
from standfast.govern.policy import MemoryWritePolicy, WriteDecision
from standfast.govern.refusals import Refusal, refusal_of_attack
from standfast.limits import MAX_VALUE_BYTES, MAX_WAITING_OF_SOURCE, MAX_WAITING_UNTRUSTED
from standfast.records.canon import canonical_bytes, fingerprint
from standfast.records.origins import Origin, lowest
from standfast.records.scopes import SHARED, said_key, scoped_key
from standfast.records.statements import letter_runs, statements_of
from standfast.records.timestamps import MISSING, day_of, local_time, time_of
from standfast.records.validity import validity_in_words
from standfast.records.vocabulary import (
    Band,
    FloorCheck,
    Record,
    Remembered,
    RunIdentity,
    Verdict,
)
from standfast.store.stored_records import superseded_keys

QUEUE_FLOOR: Final = "review_queue"
"""The check that rejects what would wait for review behind too many of its kind."""
_log: Final = logging.getLogger("standfast.govern")
_BAND_NAMED: Final = {band.value: band for band in Band}
CANONICAL_VERDICTS: Final = (Verdict.SEAL, Verdict.SABAR)
_KNOWN_VERDICTS: Final = (*CANONICAL_VERDICTS, Verdict.PARTIAL)
_OPERATION_OF_VERDICT: Final = {
    Verdict.SEAL: Operation.VAULT_WRITE,
    Verdict.SABAR: Operation.VAULT_WRITE,
    Verdict.PARTIAL: Operation.AMENDMENT_SEALING,
    Verdict.HOLD: Operation.HOLD_VERDICT,
}


class WaitingProposals(NamedTuple):
    """How many proposals of untrusted sources wait in a scope: of one source, and of all of them."""

    of_source: int = 0
    of_untrusted: int = 0

    @property
    def problem(self) -> str:
        """Why no more may wait; empty if there is room."""
        if self.of_source >= MAX_WAITING_OF_SOURCE:
            return f"{self.of_source} proposals of this untrusted source wait for review already"
        if self.of_untrusted >= MAX_WAITING_UNTRUSTED:
            return f"{self.of_untrusted} proposals of untrusted sources wait for review already"
        return ""


def nothing_waits(_record: Record) -> WaitingProposals:
    """The count of a queue that nobody has looked at."""
    return WaitingProposals()


class JudgedRecord(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A record with its verdict, its evidence and the bands it goes to. Built by ``admit``."""

    record: Record
    judgement: Judgement
    decision: WriteDecision
    proposal: Proposal | None
    author: str
    reading: str
    """The fingerprint of the text without case, spaces and punctuation; empty if it has a secret, and for a
    message.
    """
    refusal: Refusal | None = None
    """What is remembered of a refused attack, by which it is recognised when it comes back."""
    known: str | None = None
    """The id of the record that says the same already. Then nothing is stored but a witness."""
    witness: Record | None = None
    """The row that notes a new source of the known record."""
    is_new_version: bool = False
    """Whether its id is that of a record that is there already, which it replaces."""

    @property
    def verdict(self) -> Verdict:
        """The judge's verdict."""
        return self.judgement.verdict

    @computed_once
    def is_accepted(self) -> bool:
        """Whether the record becomes the current version of its subject."""
        return self.verdict in CANONICAL_VERDICTS and self.known is None

    @computed_once
    def bands(self) -> tuple[Band, ...]:
        """The bands that the decision names."""
        return tuple([_BAND_NAMED[band] for band in self.decision.target_bands])

    @property
    def answer(self) -> Remembered:
        """What the caller of ``remember`` gets."""
        if self.known is not None:
            return Remembered(memory_id=self.known, verdict=Verdict.SEAL, bands=(), known=self.known)
        return Remembered(
            memory_id=self.record.memory_id,
            verdict=self.verdict,
            bands=self.bands,
            reasons=self.judgement.reasons,
            proposal_id=None if self.proposal is None else self.proposal.proposal_id,
            valid_from=self.read_validity[0],
            valid_until=self.read_validity[1],
        )

    @property
    def read_validity(self) -> tuple[str | None, str | None]:
        """From when and until when the record holds, if its own words say so."""
        is_read = self.record.validity_words is not None
        return (self.record.valid_from, self.record.valid_until) if is_read else (None, None)

    @computed_once
    def incidents(self) -> tuple[Incident, ...]:
        """What later judgements should know about this one."""
        return incidents_of(self.record, self.judgement) if self.verdict is Verdict.VOID else ()

    @computed_once
    def logged(self) -> Record:
        """The record under an id of its own, for bands where it must not replace the current version."""
        return logged_record(self.record)

    # ``admit`` knows what these three are. They are computed for a record that was changed, or comes from
    # another process.

    @computed_once
    def is_bound(self) -> bool:
        """Whether the record has complete evidence that was made for what it says now."""
        return is_bound(self.record, self.content_hash)

    @computed_once
    def evidence_bytes(self) -> bytes:
        """The canonical bytes of the record's evidence, which all of its bands share."""
        evidence = self.record.evidence
        assert evidence is not None, "every judged record has evidence"
        return canonical_bytes(evidence.as_json())

    @computed_once
    def content(self) -> dict[str, Any]:
        """What the record says, the same in each of its bands, as plain JSON."""
        return content_of(self.record)

    @computed_once
    def content_hash(self) -> str:
        """The fingerprint of that."""
        return fingerprint_of_content(self.content)

    @property
    def superseded(self) -> tuple[str, ...]:
        """The keys that end with the commit, because the record supersedes them.

        Only what is accepted, or known, supersedes.
        """
        is_current = self.is_accepted or self.known is not None
        return superseded_keys(self.record) if is_current and self.record.supersedes else ()

    @computed_once
    def said_key(self) -> str:
        """The key of the note about what the record says."""
        return said_key(self.record.scope, self.reading, self.record.memory_id)

    @computed_once
    def placed(self) -> tuple[Record, ...]:
        """The record as it is stored in each of its bands. In PHOENIX the proposal is stored instead."""
        if self.known is not None:
            return ()
        own = self.record if self.is_accepted else self.logged
        return tuple(
            [
                own if band is own.band else own.with_fields(band=band)
                for band in self.bands
                if band is not Band.PHOENIX
            ]
        )

    def contents_of(self, placed: Sequence[Record]) -> list[tuple[Record, bytes]]:
        """Records of ``placed`` under one id, each with its canonical bytes: the same but for the band, which
        comes first.

        Evidence is most of a record, and most of it is the same in most records: its bytes are spliced in.
        """
        if not placed:
            return []
        record = placed[0]
        plain = {**self.content, "memory_id": record.memory_id, "verdict": str(self.verdict)}
        if record.tier is not None:
            plain["tier"] = str(record.tier)
        # A record says neither if it is the usual one.
        if record.scope == SHARED:
            del plain["scope"]
        if record.origin is Origin.ORDINARY:
            del plain["origin"]
        rest = b'"evidence":%b,%b' % (self.evidence_bytes, canonical_bytes(plain)[1:])
        contents = [(one, b'{"band":"%b",%b' % (one.band.encode(), rest)) for one in placed]
        if (size := len(contents[0][1])) > MAX_VALUE_BYTES:
            raise TooLarge(size_bytes=size, limit_bytes=MAX_VALUE_BYTES)
        return contents


def admit(
    claim: Claim,
    context: JudgingContext,
    *,
    judge: Judge,
    policy: MemoryWritePolicy,
    run: RunIdentity,
    namespace: str,
    author: str,
    now: datetime,
    minimum: Verdict | None = None,
    reason: str = "",
    waiting: Callable[[Record], WaitingProposals] = nothing_waits,
) -> JudgedRecord:
    """Judge a claim, build its evidence, and ask the policy where it may go.

    A claim that is meant as law (for PHOENIX, or by a human for VAULT), is judged PARTIAL or is on hold
    becomes a proposal. Nothing here can put a record into VAULT.

    Args:
        author: Who wants it remembered; recorded in proposals and patterns.
        minimum: The verdict can't be more lenient than this (SABAR or 888_HOLD).
        reason: The reason for ``minimum``.
        waiting: Counts the proposals that wait already, of what is untrusted in the scope of a record.
    """
    judgement = judge.judge(claim, context, minimum=minimum, reason=redacted_text(reason) if reason else "")
    if claim.is_message and judgement.verdict is Verdict.VOID:
        claim, judgement = _kept_message(claim, judgement, judge, context)
    if not policy.strict_mode:
        judgement = lenient_judgement(judgement, claim)
    if claim.record.origin is Origin.UNTRUSTED and _would_wait(judgement, claim):
        judgement = _unless_queue_is_full(judgement, waiting(claim.record))
    verdict = judgement.verdict
    has_secret = verdict is Verdict.VOID and _failed(judgement, SECRECY_FLOOR)
    content = redacted_claim(claim) if has_secret else with_readings(claim.record, claim.is_message)
    if content.statements and _is_ahead(content, now):
        content = content.with_fields(statements=())
    plain = content_of(content)
    digest = fingerprint_of_content(plain)
    evidence, chain, evidence_bytes = build_judged_chain(digest, judgement.floor_checks, verdict, now)
    is_meant_as_law = claim.record.band in (Band.VAULT, Band.PHOENIX)
    target = Band.VAULT if is_meant_as_law and verdict is Verdict.SEAL else None
    decision = policy.should_write_built(verdict, chain, target, timestamp=evidence.timestamp)
    band = Band.VOID if verdict is Verdict.VOID else Band.LEDGER
    record = content.with_fields(band=band, verdict=verdict, evidence=evidence)
    known = judgement.known if verdict in _KNOWN_VERDICTS and not is_meant_as_law else None
    waits = (
        known is None
        and decision.allowed
        and (decision.requires_human_approval or Band.PHOENIX in decision.target_bands)
    )
    judged = JudgedRecord(
        record=record,
        judgement=judgement,
        decision=decision,
        proposal=_proposal(record, run, namespace, author, now, law=context.vault) if waits else None,
        author=author,
        reading="" if has_secret or claim.is_message else claim.reading.fingerprint,
        refusal=None if has_secret else _remembered_attack(record, claim, judge, context, judgement),
        known=known,
        witness=None if known is None else _witness(record, known, claim, context),
    )
    # Neither band nor verdict nor evidence are content, so this is the record's content too.
    judged.__dict__.update(
        content=plain, content_hash=digest, evidence_bytes=evidence_bytes, is_bound=not chain.problems
    )
    return judged


def _is_ahead(record: Record, now: datetime) -> bool:
    """Whether a source that is not trusted dates its text in the future. Its statements would be the last
    word for ever, whatever the user says.
    """
    if record.origin is Origin.TRUSTED or record.ts_utc is None:
        return False
    # Clocks and calendars may be a day apart.
    return record.ts_utc[:10] > (now + timedelta(days=1)).date().isoformat()


def with_readings(record: Record, is_message: bool = False) -> Record:
    """The record with the plain statements of its text, and when it holds if the text says so.

    Nothing is read from what an assistant said in a conversation, which repeats and guesses, nor from what is
    untrusted, which says nothing about anybody else.
    """
    is_assistant = record.session is not None and (record.source or {}).get("kind") == "agent"
    if is_assistant or record.origin is Origin.UNTRUSTED:
        return record
    text, runs = record.text, letter_runs(record.text)
    found = statements_of(text, speaker=record.speaker, scope=record.scope, is_message=is_message, runs=runs)
    record = record if not found else record.with_fields(statements=found)
    said = MISSING if record.ts_utc is None else time_of(record.ts_utc)
    # A caller's own dates hold. What was imported was said at another time than it has here.
    is_known = (
        record.valid_from is not None or record.valid_until is not None or "created_at" in record.metadata
    )
    if is_known or said == MISSING:
        return record
    validity = validity_in_words(text, day_of(local_time(said, record.utc_offset)), runs=runs)
    if validity is None:
        return record
    return msgspec.structs.replace(
        record,
        valid_from=validity.valid_from,
        valid_until=validity.valid_until,
        validity_words=validity.words,
    )


def _kept_message(
    claim: Claim, judgement: Judgement, judge: Judge, context: JudgingContext
) -> tuple[Claim, Judgement]:
    """A turn of a trusted or ordinary speaker that a floor would reject, as the conversation keeps it.

    A conversation never loses a turn to a pattern. A secret is cut out in place. Whatever else fails is
    noted, and the turn counts as untrusted from then on: verdict SABAR, with the reason in its evidence.
    Turns of untrusted speakers, such as results of tools, stay rejected.
    """
    if claim.record.origin is Origin.UNTRUSTED or claim.is_overlong:
        return claim, judgement
    reasons = list(judgement.reasons)
    record = claim.record
    if _failed(judgement, SECRECY_FLOOR):
        record = redacted_claim(claim)
        judgement = judge.judge(Claim(record=record, role=claim.role, is_message=True), context)
    if judgement.verdict is Verdict.VOID:
        record = msgspec.structs.replace(record, origin=Origin.UNTRUSTED)
    # A failed hard floor would make the verdict VOID, so in a conversation floors are soft.
    checks = tuple(
        check if check.passed else msgspec.structs.replace(check, hard=False)
        for check in judgement.floor_checks
    )
    kept = msgspec.structs.replace(
        judgement,
        verdict=Verdict.SABAR,
        floor_checks=checks,
        reasons=tuple(f"kept as a turn of the conversation, {reason}" for reason in reasons),
    )
    return Claim(record=record, role=claim.role, is_message=True), kept


def _would_wait(judgement: Judgement, claim: Claim) -> bool:
    """Whether a judgement makes a proposal."""
    is_new = judgement.known is None and judgement.verdict in (Verdict.PARTIAL, Verdict.HOLD)
    return is_new or (claim.is_meant_as_law and judgement.verdict is not Verdict.VOID)


def _unless_queue_is_full(judgement: Judgement, waiting: WaitingProposals) -> Judgement:
    """The judgement, or a rejection if too much of the same source, or of all untrusted ones, waits already.

    Nobody could review what a page can write without end.
    """
    if not waiting.problem:
        return judgement
    reason = f"{waiting.problem}. Decide on those first, or let the user say what should be remembered"
    full = FloorCheck(floor=QUEUE_FLOOR, score=0.0, passed=False, threshold=0.5, hard=True, reason=reason)
    return msgspec.structs.replace(
        judgement,
        verdict=Verdict.VOID,
        floor_checks=(*judgement.floor_checks, full),
        reasons=(*judgement.reasons, f"rejected: {reason} [{QUEUE_FLOOR}]"),
        known=None,
    )


def _remembered_attack(
    record: Record, claim: Claim, judge: Judge, context: JudgingContext, judgement: Judgement
) -> Refusal | None:
    """What is remembered of an attack in the text. What has its order in another field may come back without
    that field.
    """
    day = "" if record.evidence is None else record.evidence.timestamp[:10]
    refusal = refusal_of_attack(record, judgement, day)
    if refusal is None or len(claim.fields) == 1:
        return refusal
    text = Record(memory_id=record.memory_id, text=record.text, origin=record.origin)
    alone = judge.judge(Claim(record=text, role=claim.role, is_message=claim.is_message), context)
    return refusal_of_attack(record, alone, day)


def lenient_judgement(judgement: Judgement, claim: Claim) -> Judgement:
    """The judgement of lenient mode: what needs review is accepted with a warning (SABAR), unless it is meant
    as law or untrusted.

    VOID stays VOID: rejected content never becomes canonical, in no mode.
    """
    if judgement.verdict is not Verdict.PARTIAL or claim.is_meant_as_law:
        return judgement
    if claim.record.origin is Origin.UNTRUSTED:
        return judgement
    _log.warning("lenient mode allowed a write: %s", "; ".join(judgement.reasons))
    reasons = tuple(f"allowed in lenient mode, {reason}" for reason in judgement.reasons)
    return msgspec.structs.replace(judgement, verdict=Verdict.SABAR, reasons=reasons)


def _witness(record: Record, known: str, claim: Claim, context: JudgingContext) -> Record | None:
    """The row of a new source for what is known; None if the source is not new, or the text was recalled just
    now.
    """
    if record.verdict not in CANONICAL_VERDICTS:
        return None
    if record.origin is Origin.UNTRUSTED and not _is_untrusted(known, claim, context):
        return None
    if context.recalled_text is not None and context.recalled_text.contains(claim.reading):
        return None
    witnesses = [one.witnesses for one in context.similar_to(claim) if one.memory_id == known]
    new = claim.witnesses.difference(*witnesses)
    if not new:
        return None
    vouching = msgspec.structs.replace(
        record,
        memory_id=f"{witness_prefix(known)}{fingerprint(sorted(new))[:32]}",
        subject=None,
        refs=({"kind": WITNESS_OF, "id": known}, *record.refs),
        band=Band.WITNESS,
    )
    assert record.evidence is not None, "every judged record has evidence"
    checks = [content_check(vouching), *record.evidence.floor_checks[1:]]
    instant = read_instant(record.evidence.timestamp)
    assert instant is not None, "evidence has a valid time"
    return msgspec.structs.replace(vouching, evidence=build_evidence(checks, record.verdict, instant))


def _is_untrusted(known: str, claim: Claim, context: JudgingContext) -> bool:
    """Whether a known record is untrusted. Untrusted sources vouch for nothing else."""
    origins = [one.origin for one in context.similar_to(claim) if one.memory_id == known]
    return lowest(origins) is Origin.UNTRUSTED


def with_own_id(record: Record, current: Record | None) -> Record:
    """The record under an id of its own if it must not replace the current text of its subject: if it is
    untrusted, or ordinary next to what a trusted user said.

    All that one site says about a subject has one id, so what it says later replaces only its own words.

    Args:
        current: The current record of the subject.
    """
    is_below = current is not None and record.origin.rank < current.origin.rank
    if record.subject is None or not (is_below or record.origin is Origin.UNTRUSTED):
        return record
    site = fingerprint(["beside/v1", list(sites_of(record))])[:12]
    return msgspec.structs.replace(record, memory_id=f"{record.subject}~{site}")


def witness_prefix(memory_id: str) -> str:
    """The start of the ids of all witness rows of a record."""
    return f"witness/{fingerprint(memory_id)[:32]}/"


def _failed(judgement: Judgement, floor: str) -> bool:
    return any(check.floor == floor and not check.passed for check in judgement.floor_checks)


def _proposal(
    record: Record,
    run: RunIdentity,
    namespace: str,
    author: str,
    now: datetime,
    *,
    law: Iterable[Record],
) -> Proposal:
    """The proposal of a record. What would replace or end sealed law modifies the constitution."""
    assert record.verdict is not None, "only judged records are proposed"
    changed = {record.memory_id, *record.supersedes}
    replaces_law = any(sealed.scope == record.scope and sealed.memory_id in changed for sealed in law)
    operation = _OPERATION_OF_VERDICT[record.verdict]
    return Proposal.of(
        namespace=namespace,
        key=scoped_key(Band.VAULT, record.scope, record.memory_id),
        payload_fingerprint=content_fingerprint(record),
        summary=record.text,
        verdict=record.verdict,
        author=author,
        proposed_at=now,
        memory_snapshot_id=run.memory_snapshot_id,
        policy_set_id=run.policy_set_id,
        operation=Operation.CONSTITUTION_MODIFICATION if replaces_law else operation,
    )
