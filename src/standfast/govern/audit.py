"""The audit of governance: every record in a band was allowed there, and its proof is still valid.

Evidence must be complete and made for the content next to it. Everything that is or ever was in VAULT must
have been sealed by a signature over that content, for that place, by someone who was on the list of signers
at the time, in the commit that stored the decision; so an old law cannot be restored with its old seal.
Whatever ended in VAULT or left PHOENIX must have been decided as well. No row is trusted because it is there.

The audit cannot know whether a list of signers was ever the right one: compare it with yours.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

import msgspec

from standfast.errors import InvalidValue, StandfastError
from standfast.govern.approvals.approvals import Decision, ProposalState, check_approval
from standfast.govern.approvals.queue import (
    DecidedProposal,
    WaitingProposal,
    decision_key,
    law_fingerprint,
    nonce_key,
    signers_key,
)
from standfast.govern.approvals.signers import Signers
from standfast.govern.evidence import (
    HUMAN_ACCEPT_FLOOR,
    HUMAN_SEAL_FLOOR,
    content_fingerprint,
    is_bound,
    is_sound_chain,
    read_instant,
)
from standfast.govern.policy import BANDS_OF_VERDICT
from standfast.limits import COPY_PAGE_RECORDS
from standfast.records.canon import parse
from standfast.records.rows import SYSTEM_NAMESPACE, RowKind, kind_of_row
from standfast.records.scopes import name_in, prefix_in, prefix_of, scope_in
from standfast.records.vocabulary import ActionType, Band, Record, Verdict
from standfast.store.compression import BASE_BAND, SECOND_BAND, borrowed_by
from standfast.store.protocol import BEHIND_ALL_KEYS, RecordKey, Version, verified
from standfast.store.store import Store
from standfast.store.stored_records import decode_record, record_of

_SEALED: Final = re.compile(r"\S+ sealed ([0-9a-f]{64}) at \S+")
_ACCEPTED: Final = re.compile(r"\S+ accepted ([0-9a-f]{64}) at \S+")


# Evidence as it is stored: a check that holds the fingerprint of the content, the others, and the rest.
_EVIDENCE_START: Final = re.compile(
    rb'\{"band":"[A-Z]+","evidence":(\{)"floor_checks":\[\{"floor":"content","passed":true,"reason":"sha256:'
    rb'([0-9a-f]{64})","score":1\},'
)
_EVIDENCE_END: Final = re.compile(
    rb'\],"hash":"([0-9a-f]{64})","timestamp":"([0-9TZ:.-]{20,32})","verdict":"([0-9A-Z_]+)"\}'
)
_PROVED_BANDS: Final = frozenset(band.value for band in Band) - {Band.VAULT.value, Band.PHOENIX.value}


class GovernanceAudit:
    """Checks that every record in a band is allowed there.

    Nearly all are proved sound from the rows that the audit of the store reads. Other records, law,
    proposals and decisions are read and checked one by one, and told.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unproved: set[RecordKey] = set()
        self._examples: dict[RecordKey, str] = {}
        """A key of each kind of rows in each namespace."""

    def take(self, snapshot: int, rows: Sequence[Version], damaged: Collection[RecordKey]) -> None:
        """Prove the records among the rows of a commit. The newest version of each counts."""
        del snapshot  # The commits come in order.
        bases: dict[RecordKey, tuple[bytes | None, Verdict]] = {}
        # From behind, so that a record in LEDGER comes before its equal in ACTIVE.
        for row in reversed(rows):
            band, _, rest = row.key.partition("/")
            self._examples.setdefault((row.namespace, band), row.key)
            if band not in _PROVED_BANDS:
                continue
            place = (row.namespace, row.key)
            if row.content is None or self._is_proved(row, band, rest, bases):
                self._unproved.discard(place)
            else:
                self._unproved.add(place)
        self._unproved.update(place for place in damaged if prefix_in(place[1]) in _PROVED_BANDS)

    def _is_proved(
        self, row: Version, band: str, rest: str, bases: dict[RecordKey, tuple[bytes | None, Verdict]]
    ) -> bool:
        content = row.content or b""
        base, verdict = bases.get((row.namespace, rest), (None, None))
        if base is None or band != SECOND_BAND or borrowed_by(base) != content:
            verdict = _proved_verdict(content, row.key)
            if verdict is not None and band == BASE_BAND:
                bases[row.namespace, rest] = content, verdict
        return verdict is not None and band in _REACHED[verdict]

    def problems(self) -> Iterator[str]:
        """Yield one message per problem with the records of all bands."""
        for namespace in self._store.namespaces():
            audit = _Audit(self._store, namespace)
            examples = [key for (place, _), key in self._examples.items() if place == namespace]
            if not all(_is_of_a_kind(namespace, key) for key in examples):
                yield from audit.rows_of_no_kind()
            yield from audit.problems(sorted(key for place, key in self._unproved if place == namespace))


def _is_of_a_kind(namespace: str, key: str) -> bool:
    try:
        kind_of_row(namespace, key)
    except InvalidValue:
        return False
    return True


# Patterns of attacks are witnesses, and so is a source that confirms what is known.
_REACHED: Final = {
    verdict: {*bands, Band.WITNESS} if verdict in (Verdict.SEAL, Verdict.SABAR) else set(bands)
    for verdict, bands in BANDS_OF_VERDICT.items()
}
"""The bands that a verdict allows."""


def _proved_verdict(content: bytes, key: str) -> Verdict | None:
    """The verdict of a record that belongs to a key and whose evidence is complete and was made for it; None
    if that takes a closer look.
    """
    start = _EVIDENCE_START.match(content)
    # Within a string its quotes would be escaped.
    end = start and _EVIDENCE_END.match(content, content.find(b'],"hash":"', start.end()))
    # A second one, which a reader might take instead, is looked at more closely.
    if not start or not end or content.count(b'"evidence":') > 1:
        return None
    digest, (hashed, timestamp, verdict) = start[2].decode(), map(bytes.decode, end.groups())
    if not is_sound_chain(digest, content[start.end() : end.start()], hashed, timestamp, verdict):
        return None
    try:
        # The rest of the record, without what was just read.
        record = decode_record(content[: start.start(1)] + b"null" + content[end.end() :])
    except (msgspec.DecodeError, StandfastError):
        return None
    is_whole = record.evidence is None and record.verdict == verdict and record.key == key
    return record.verdict if is_whole and content_fingerprint(record) == digest else None


class _Audit:
    """The audit of one namespace at the current head. Decisions come first, because seals depend on them."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._head = store.head()
        self._signers: dict[str, Signers] = {}
        self._decisions: dict[str, tuple[int, DecidedProposal]] = {}

    def problems(self, unproved: Sequence[str]) -> Iterator[str]:
        """Yield one message per problem.

        Args:
            unproved: The keys of the records that were not proved to be sound.
        """
        checks: dict[str, Callable[[Version], None]] = {RowKind.DECISION: self._check_decision}
        checks |= {**dict.fromkeys(Band, self._check), Band.PHOENIX: self._check_proposal}
        for kind, check in checks.items():
            for version in self._rows_to_read(kind, unproved):
                # Only of law is every version checked; in other bands the newest one counts.
                past = self._history(version) if kind == Band.VAULT else (version,)
                for one in past:
                    try:
                        check(verified(one))
                    except StandfastError as error:
                        yield f"{self._namespace}/{one.key} in snapshot {one.memory_snapshot_id}: {error}"

    def rows_of_no_kind(self) -> Iterator[str]:
        """Yield the first row of each kind that is not in the table, or not of this namespace."""
        after = ""
        while (first := next(self._store.newest_versions(self._namespace, after=after), None)) is not None:
            try:
                kind_of_row(self._namespace, first.key)
            except InvalidValue as error:
                yield f"{self._namespace}/{first.key} in snapshot {first.memory_snapshot_id}: {error}"
            after = max(first.key, prefix_of(prefix_in(first.key)) + BEHIND_ALL_KEYS)

    def _rows_to_read(self, kind: str, unproved: Sequence[str]) -> Iterator[Version]:
        if kind not in _PROVED_BANDS:
            yield from self._store.newest_versions(self._namespace, prefix=prefix_of(kind), at=self._head)
            return
        keys = [key for key in unproved if prefix_in(key) == kind]
        for start in range(0, len(keys), COPY_PAGE_RECORDS):
            page = keys[start : start + COPY_PAGE_RECORDS]
            yield from self._store.versions_under(self._namespace, page, newest_at=self._head)

    def _history(self, version: Version) -> list[Version]:
        versions = self._store.history(self._namespace, version.key, verify=False)
        return [one for one in versions if one.memory_snapshot_id <= self._head]

    def _check(self, version: Version) -> None:
        """Checks that a record is in a band that its evidence allows."""
        band = Band(prefix_in(version.key))
        if version.content is None:
            is_ended_law = band is Band.VAULT and not self._was_ended_by_law(version)
            _require(not is_ended_law, "Record", "law was ended without a human's decision")
            return
        record = record_of(version)
        _require(record.key == version.key, "Record", f"its content belongs to the key {record.key}")
        if band is Band.VAULT:
            self._check_seal(version, record)
            return
        if record.evidence is None:
            raise InvalidValue(what="Evidence", problem="there is none; whatever is remembered has some")
        _require(is_bound(record), "Evidence", "it is incomplete, or was made for other content")
        self._check_acceptance(record)
        is_allowed = band in _REACHED[record.evidence.verdict]
        _require(is_allowed, "Record", f"a verdict of {record.evidence.verdict} does not allow this band")

    def _was_ended_by_law(self, version: Version) -> bool:
        """Whether a human sealed a law that supersedes this one in the commit that ended it."""
        scope, memory_id = scope_in(version.key), name_in(version.key)
        for snapshot, decided in self._decisions.values():
            is_seal = decided.approval.statement.decision is Decision.APPROVE
            if snapshot != version.memory_snapshot_id or not is_seal:
                continue
            key = decided.proposal.key
            sealed = self._store.read(self._namespace, [key], at=snapshot).get(key)
            if sealed is not None and (record := record_of(sealed)).scope == scope:
                return memory_id in record.supersedes
        return False

    def _check_acceptance(self, record: Record) -> None:
        """Check that a record that says a human accepted it was accepted by a signature over this content."""
        checks = record.evidence.floor_checks if record.evidence else ()
        for check in checks:
            if check.floor == HUMAN_ACCEPT_FLOOR:
                named = _ACCEPTED.fullmatch(check.reason or "")
                _, decided = self._decisions.get(named[1] if named else "", (0, None))
                statement = None if decided is None else decided.approval.statement
                _require(
                    statement is not None
                    and (statement.decision, statement.payload_fingerprint)
                    == (Decision.ACCEPT, content_fingerprint(record)),
                    "Record",
                    "it says that a human accepted it, and no signature does",
                )

    def _check_seal(self, version: Version, record: Record) -> None:
        if not is_bound(record) or record.evidence is None:
            raise InvalidValue(what="Record", problem="it is in VAULT without valid evidence")
        reasons = [c.reason or "" for c in record.evidence.floor_checks if c.floor == HUMAN_SEAL_FLOOR]
        named = _SEALED.fullmatch(reasons[-1]) if reasons else None
        snapshot, decided = self._decisions.get(named[1] if named else "", (0, None))
        if decided is None:
            raise InvalidValue(what="Record", problem="it is in VAULT without a human's decision")
        statement, proposal = decided.approval.statement, decided.proposal
        signed = (statement.decision, statement.payload_fingerprint, proposal.key)
        _require(
            signed == (Decision.APPROVE, content_fingerprint(record), version.key),
            "Record",
            f"{decided.approval.principal} signed something else",
        )
        _require(
            snapshot == version.memory_snapshot_id,
            "Record",
            f"its seal was already used in snapshot {snapshot}",
        )

    def _was_forgotten(self, version: Version) -> bool:
        """Whether the content of a row was erased, here or by this version. The ledger says who and why."""
        versions = self._store.history(self._namespace, version.key, verify=False)
        return version.erased_by is not None or any(
            one.erased_by == version.memory_snapshot_id for one in versions
        )

    def _check_proposal(self, version: Version) -> None:
        """Checks that a waiting proposal has the proposed record, and that one that ended was decided."""
        proposal_id = version.key.partition("/")[2]
        if version.content is None:
            snapshot, _ = self._decisions.get(proposal_id, (0, None))
            ended = version.action is ActionType.EXPIRE and snapshot == version.memory_snapshot_id
            _require(
                ended or self._was_forgotten(version), "Proposal", "it was removed without a human's decision"
            )
            return
        waiting = WaitingProposal.from_json(parse(version.content))
        proposal, record = waiting.proposal, waiting.record
        _require(
            (proposal.proposal_id, proposal.namespace, proposal.state)
            == (proposal_id, self._namespace, ProposalState.PENDING),
            "Proposal",
            "it belongs to another namespace or id, or is already decided",
        )
        _require(
            is_bound(record) and content_fingerprint(record) == proposal.payload_fingerprint,
            "Proposal",
            "its record is not the one that was proposed",
        )

    def _check_decision(self, version: Version) -> None:
        """Verify a decision again, by the signers of its time, and check that its nonce is used up."""
        if version.content is None:
            _require(self._was_forgotten(version), "Decision", "it was removed; decisions are permanent")
            return
        decided = DecidedProposal.from_json(parse(version.content))
        proposal, statement = decided.proposal, decided.approval.statement
        at = read_instant(decided.decided_at)
        _require(at is not None, "Decision", "it has no valid time")
        assert at is not None
        again = check_approval(
            decided.approval,
            msgspec.structs.replace(proposal, state=ProposalState.PENDING),
            signers=self._listed(decided.signers_fingerprint),
            now=at,
            used_nonces=(),
            author=proposal.author,
            replaces=statement.replaces,
        )
        nonce_row = {"proposal_id": proposal.proposal_id, "namespace": self._namespace}
        place = (decision_key(proposal.proposal_id), self._namespace)
        _require(
            again == proposal and place == (version.key, proposal.namespace),
            "Decision",
            "it belongs to another proposal",
        )
        nonce, snapshot = self._system_value(nonce_key(statement.nonce))
        _require(
            (nonce, snapshot) == (nonce_row, version.memory_snapshot_id),
            "Decision",
            "its nonce is not stored as used",
        )
        _require(
            statement.replaces == self._replaced(decided, version),
            "Decision",
            "the law that it replaced is not the one that was signed",
        )
        self._decisions[proposal.proposal_id] = version.memory_snapshot_id, decided

    def _replaced(self, decided: DecidedProposal, version: Version) -> str | None:
        """What a decision replaced.

        Law is permanent and is looked up; anything else may be erased, so the statement is believed.
        """
        if decided.approval.statement.decision is not Decision.APPROVE:
            return decided.approval.statement.replaces
        key, before = decided.proposal.key, version.memory_snapshot_id - 1
        sealed = self._store.read(self._namespace, [key], at=version.memory_snapshot_id).get(key)
        return law_fingerprint(
            self._store, self._namespace, key, None if sealed is None else record_of(sealed), at=before
        )

    def _listed(self, fingerprint: str) -> Signers:
        """The stored list of signers with this fingerprint."""
        if fingerprint not in self._signers:
            listed, _ = self._system_value(signers_key(fingerprint))
            texts = [listed.get(name) for name in ("allowed", "revoked")] if isinstance(listed, dict) else []
            _require(
                len(texts) == 2, "Decision", "the list of signers that it was checked against is missing"
            )
            signers = Signers.parse(*map(str, texts))
            _require(
                signers.fingerprint == fingerprint,
                "Decision",
                "the stored list of signers has another fingerprint",
            )
            self._signers[fingerprint] = signers
        return self._signers[fingerprint]

    def _system_value(self, key: str) -> tuple[Any, int]:
        """The value of a key in the system namespace, and its snapshot."""
        found = self._store.read(SYSTEM_NAMESPACE, [key], at=self._head)
        if key not in found:
            return None, 0
        return parse(found[key].content or b""), found[key].memory_snapshot_id


def _require(condition: bool, what: str, problem: str) -> None:
    if not condition:
        raise InvalidValue(what=what, problem=problem)
