"""The document's flow, as four functions that ``memory.py`` calls one after the other.

    111_SENSE   sense()   what is recalled gets its ceiling: a suggestion, never a fact
    777_FORGE   forge()   what went wrong before is counted, and becomes a scar
    888_JUDGE   judge()   floors make a verdict, the verdict and its evidence decide where the thing goes
    999_SEAL    seal()    all of it becomes one commit, with what the ledger is told of it

They are pure: memory hands in what they may see, and applies what they give back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import msgspec

from standfast.canon import utc_text
from standfast.errors import NotGoverned
from standfast.govern.approvals.approvals import Proposal
from standfast.govern.authority import Operation, Role, require_write
from standfast.govern.ceilings import RecallDecision, decide_recall
from standfast.govern.evidence import build_evidence, content_check, content_fingerprint, is_bound
from standfast.govern.judge.judge import Claim, Judge, Judgement, JudgingContext
from standfast.govern.patterns import Incident, detect_patterns, incidents_of
from standfast.govern.policy import MemoryWritePolicy, WriteDecision
from standfast.limits import FACT_PAGE_WRITES
from standfast.store.commit import Commit, Fact, Write
from standfast.vocabulary import ActionType, Band, Record, Remembered, RunIdentity, Verdict

HUMAN_SEAL_FLOOR: Final = "human_seal"
NOVELTY_FLOOR: Final = "F8_Novelty"
CANONICAL_VERDICTS: Final = (Verdict.SEAL, Verdict.SABAR)
_OPERATION_OF_VERDICT: Final = {
    Verdict.SEAL: Operation.VAULT_WRITE,
    Verdict.SABAR: Operation.VAULT_WRITE,
    Verdict.PARTIAL: Operation.AMENDMENT_SEALING,
    Verdict.HOLD: Operation.HOLD_VERDICT,
}


def sense(
    records: Iterable[Record], *, now: datetime, context: dict[str, Any] | None = None
) -> list[RecallDecision]:
    """111_SENSE: whether each record may be recalled, how far it may be trusted, and why not further."""
    return [decide_recall(record, context, now) for record in records]


def forge(
    judged: Iterable["Judged"], counted: Mapping[Incident, int]
) -> tuple[tuple[Record, ...], list[tuple[Incident, str]]]:
    """777_FORGE: the patterns that these judgements make, and the incidents that they leave, each with what left it."""
    left = [(incident, one.logged.memory_id) for one in judged for incident in one.incidents]
    return detect_patterns([incident for incident, _ in left], counted), left


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A thing to remember, with its verdict, the evidence for it, and where it goes. Made by ``judge``."""

    record: Record
    judgement: Judgement
    decision: WriteDecision
    proposal: Proposal | None
    author: str
    reading: str
    """The fingerprint of what it says, whatever its case, spaces and punctuation."""
    refused_reading: str | None = None
    """The fingerprint by which the same content is recognised when it comes back, if it was refused."""

    @property
    def verdict(self) -> Verdict:
        """What the judge said."""
        return self.judgement.verdict

    @property
    def told(self) -> Remembered:
        """What the agent is told of it."""
        return Remembered(
            memory_id=self.record.memory_id,
            verdict=self.verdict,
            bands=tuple(Band(band) for band in self.decision.target_bands),
            reasons=self.judgement.reasons,
            proposal_id=None if self.proposal is None else self.proposal.proposal_id,
        )

    @cached_property
    def incidents(self) -> tuple[Incident, ...]:
        """What later judgements should know of this one."""
        return incidents_of(self.record, self.judgement, self.author)

    @cached_property
    def logged(self) -> Record:
        """The record under an id of its own, for bands where it is kept beside what is canonical, not in its place."""
        return logged(self.record)

    @cached_property
    def placed(self) -> tuple[Record, ...]:
        """The record as it stands in each band that it goes to, but for PHOENIX, where its proposal waits."""
        own = self.record if self.verdict in CANONICAL_VERDICTS else self.logged
        bands = [Band(band) for band in self.decision.target_bands if band != Band.PHOENIX]
        return tuple(msgspec.structs.replace(own, band=band) for band in bands)


def logged(record: Record) -> Record:
    """A judged record under an id that no other judgement shares."""
    assert record.evidence is not None, "judge() gives every record its evidence"
    return msgspec.structs.replace(record, memory_id=f"{record.memory_id}~{record.evidence.hash[:12]}")


def judge(
    claim: Claim,
    context: JudgingContext,
    *,
    floors: Judge,
    policy: MemoryWritePolicy,
    run: RunIdentity,
    namespace: str,
    author: str,
    now: datetime,
    told: Verdict | None = None,
    why: str = "",
) -> Judged:
    """888_JUDGE: floors over the claim, evidence of what they found, and the policy's word on where it may go.

    What is meant as law (for PHOENIX, or by a human for VAULT), was judged PARTIAL or is held waits as a proposal;
    nothing here can put it into VAULT.
    """
    judgement = floors.judge(claim, context, minimum=told, reason=why)
    verdict = judgement.verdict
    evidence = build_evidence([content_check(claim.record), *judgement.floor_checks], verdict, now)
    is_meant_as_law = claim.record.band in (Band.VAULT, Band.PHOENIX)
    target = Band.VAULT if is_meant_as_law and verdict is Verdict.SEAL else None
    decision = policy.should_write(verdict, evidence, target)
    band = Band.VOID if verdict is Verdict.VOID else Band.LEDGER
    record = msgspec.structs.replace(claim.record, band=band, verdict=verdict, evidence=evidence)
    waits = decision.allowed and (decision.requires_human_approval or Band.PHOENIX in decision.target_bands)
    return Judged(
        record=record,
        judgement=judgement,
        decision=decision,
        proposal=_proposal(record, run, namespace, author, now) if waits else None,
        author=author,
        reading=claim.reading.fingerprint,
        refused_reading=claim.reading.fingerprint if _is_refused_for_what_it_says(judgement) else None,
    )


def _is_refused_for_what_it_says(judgement: Judgement) -> bool:
    """A mere duplicate is refused too, but what it duplicates must not be refused for its sake."""
    if judgement.verdict is not Verdict.VOID:
        return False
    failed = {check.floor for check in judgement.floor_checks if check.hard and not check.passed}
    return bool(failed - {NOVELTY_FLOOR})


def _proposal(record: Record, run: RunIdentity, namespace: str, author: str, now: datetime) -> Proposal:
    assert record.verdict is not None, "only what was judged is proposed"
    return Proposal.of(
        namespace=namespace,
        key=f"{Band.VAULT}/{record.memory_id}",
        payload_fingerprint=content_fingerprint(record),
        summary=record.text,
        verdict=record.verdict,
        author=author,
        proposed_at=now,
        memory_snapshot_id=run.memory_snapshot_id,
        policy_set_id=run.policy_set_id,
        operation=_OPERATION_OF_VERDICT[record.verdict],
    )


def seal(
    run: RunIdentity,
    namespace: str,
    judged: Sequence[Judged],
    *,
    patterns: Sequence[Record] = (),
    incidents: Sequence[tuple[Incident, str]] = (),
    forgotten: Mapping[str, str] = MappingProxyType({}),
    placed: Sequence[Record] | None = None,
    notes: Mapping[str, dict[str, Any]] = MappingProxyType({}),
    gone: Sequence[str] = (),
    facts: Sequence[Fact] = (),
    present: Mapping[str, str | None],
) -> Commit | None:
    """999_SEAL: one commit of all that was judged; None if nothing changes.

    ``present`` are the fingerprints of what the run's snapshot shows under the keys that this may write: what is there
    already is left alone, what is there with other content gets a new version. ``forgotten`` are keys whose content is
    erased, each with the reason: they end, or get the new content. Budgets may have their say: ``placed`` is what they
    keep of it, ``notes`` their own rows, ``gone`` the keys that they expire, ``facts`` what they tell.
    """
    wanted = [record for one in judged for record in one.placed] if placed is None else placed
    rows = {
        **notes,
        **{record.key: record.as_json() for record in wanted},
        **_notes_of(judged, patterns, incidents),
    }
    writes = [
        write
        for key, row in rows.items()
        if (write := _write(namespace, key, row, present, forgotten.get(key)))
    ]
    writes += [
        Write.of(namespace, key, ActionType.EXPIRE, erases=reason)
        for key, reason in forgotten.items()
        if key not in rows
    ]
    writes += [
        Write.of(namespace, key, ActionType.EXPIRE)
        for key in gone
        if key not in rows and key not in forgotten and key in present
    ]
    if not writes:
        return None
    return Commit.of(
        run_id=run.run_id,
        memory_snapshot_id=run.memory_snapshot_id,
        policy_set_id=run.policy_set_id,
        writes=writes,
        facts=[*_facts(judged), *facts],
    )


def _notes_of(
    judged: Sequence[Judged], patterns: Sequence[Record], incidents: Sequence[tuple[Incident, str]]
) -> dict[str, dict[str, Any]]:
    """The rows beside the records: proposals, what was said or refused, patterns and incidents."""
    rows: dict[str, dict[str, Any]] = {}
    for one in judged:
        _require_governed(one)
        if one.proposal is not None:
            key = f"{Band.PHOENIX}/{one.proposal.proposal_id}"
            rows[key] = {"proposal": one.proposal.as_json(), "record": one.record.as_json()}
        if one.verdict in CANONICAL_VERDICTS and one.placed:
            rows[said_key(one.reading, one.record.memory_id)] = {"said": one.reading}
        if one.refused_reading is not None:
            rows[refused_key(one.refused_reading)] = refused_row(one.refused_reading)
    for pattern in patterns:
        require_write(Role.FORGE, pattern.band)
        rows[pattern.key] = pattern.as_json()
    for incident, event in incidents:
        rows[incident.prefix + event] = {
            "about": incident.about,
            "floor": incident.floor,
            "pattern": incident.pattern.value,
        }
    return rows


def refused_key(reading: str) -> str:
    """Where it is noted that this content was refused; the note outlives the content."""
    return f"refused/{reading}"


def said_key(reading: str, memory_id: str = "") -> str:
    """Where it is noted that memory says this already, and under which id; without one, where such notes begin."""
    return f"said/{reading[:32]}/{memory_id}"


def refused_row(reading: str) -> dict[str, str]:
    """The note itself: always the same, so that two who refuse the same content do not conflict."""
    return {"refused": reading}


def keys_written(judged: Iterable[Judged], patterns: Iterable[Record]) -> list[str]:
    """The keys whose present state ``seal`` needs to know."""
    keys = {record.key for one in judged for record in one.placed} | {pattern.key for pattern in patterns}
    keys |= {said_key(one.reading, one.record.memory_id) for one in judged}
    return sorted(keys | {refused_key(one.refused_reading) for one in judged if one.refused_reading})


def _write(
    namespace: str, key: str, row: dict[str, Any], present: Mapping[str, str | None], erases: str | None
) -> Write | None:
    write = Write.of(namespace, key, ActionType.WRITE, row, erases=erases)
    if key not in present:
        return write
    if present[key] == write.fingerprint and erases is None:
        return None
    return msgspec.structs.replace(write, action=ActionType.MERGE)


def _require_governed(one: Judged) -> None:
    """Refuse what ``judge`` did not make, or was changed since."""
    if not one.decision.allowed or not is_bound(one.record):
        raise NotGoverned(memory_id=one.record.memory_id, problem=one.decision.reason)
    for record in one.placed:
        require_write(Role.JUDGE, record.band)


def _facts(judged: Sequence[Judged]) -> list[Fact]:
    """The audit of the writes, in the document's shape, a page a fact."""
    told = [
        _audited(one, record.band, record.memory_id, content_fingerprint(record))
        for one in judged
        for record in one.placed
    ]
    told += [
        _audited(one, Band.PHOENIX, one.proposal.proposal_id, one.proposal.payload_fingerprint)
        for one in judged
        if one.proposal is not None
    ]
    pages = [told[start : start + FACT_PAGE_WRITES] for start in range(0, len(told), FACT_PAGE_WRITES)]
    return [Fact.of("audit", {"writes": page}) for page in pages]


def _audited(one: Judged, band: Band, entry_id: str, entry_hash: str) -> dict[str, Any]:
    return {
        "band": band.value,
        "entry_hash": entry_hash,
        "entry_id": entry_id,
        "evidence_hash": one.record.evidence.hash if one.record.evidence else None,
        "reasons": list(one.judgement.reasons),
        "verdict": one.verdict.value,
        "writer_id": Role.JUDGE.value,
    }


def human_seal(record: Record, *, principal: str, proposal_id: str, now: datetime) -> Record:
    """The record as law: the judge's findings stay in its evidence, and the human's seal is added to them."""
    assert record.evidence is not None, "only what was judged is sealed"
    seal_check = msgspec.structs.replace(
        content_check(record),
        floor=HUMAN_SEAL_FLOOR,
        reason=f"{principal} sealed {proposal_id} at {utc_text(now)}",
    )
    evidence = build_evidence([*record.evidence.floor_checks, seal_check], Verdict.SEAL, now)
    return msgspec.structs.replace(record, band=Band.VAULT, verdict=Verdict.SEAL, evidence=evidence)
