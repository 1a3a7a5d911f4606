"""Auditing governance: what stands in a band must have been allowed to stand there, and the proof must still hold.

Evidence must be whole and of the very content it stands beside. What is in VAULT must have been sealed: by a
signature over that content, of someone who was on the list of signers when the decision was made. Nothing here
trusts a row because it is there.
"""

from collections.abc import Iterator

from holdfast.canon import parse
from holdfast.errors import HoldfastError, InvalidValue
from holdfast.govern.evidence import content_fingerprint, is_bound, read_instant
from holdfast.govern.policy import BANDS_OF_VERDICT
from holdfast.govern.seals.approvals import Decision
from holdfast.govern.seals.desk import SYSTEM_NAMESPACE, Decided, signers_key
from holdfast.govern.seals.signers import Signers
from holdfast.govern.seals.sshsig import SEAL_NAMESPACE, verify
from holdfast.govern.stages import HUMAN_SEAL_FLOOR
from holdfast.store.protocol import Version
from holdfast.store.records import record_of
from holdfast.store.store import Store
from holdfast.vocabulary import Band, Record


def problems_of_governance(store: Store) -> Iterator[str]:
    """Every problem with what the bands hold; none told means that each record can answer for itself."""
    for namespace in store.storage.namespaces():
        for band in Band:
            if band is Band.PHOENIX:
                continue
            for version in store.scan(namespace, prefix=f"{band}/"):
                try:
                    _check(store, version, band)
                except HoldfastError as error:
                    yield f"{namespace}/{version.key} in snapshot {version.memory_snapshot_id}: {error}"


def _check(store: Store, version: Version, band: Band) -> None:
    record = record_of(version)
    if record.key != version.key:
        raise InvalidValue(what="Record", problem=f"it says that it is {record.key}")
    if band is Band.VAULT:
        _check_seal(store, version.namespace, record)
    elif record.evidence is not None:
        if not is_bound(record):
            raise InvalidValue(what="Evidence", problem="it is not of this content, or not whole")
        if band not in BANDS_OF_VERDICT[record.evidence.verdict]:
            raise InvalidValue(
                what="Record", problem=f"a verdict {record.evidence.verdict} does not lead there"
            )


def _check_seal(store: Store, namespace: str, record: Record) -> None:
    if not is_bound(record) or record.evidence is None:
        raise InvalidValue(what="Record", problem="it is in VAULT without sound evidence")
    sealed_by = [check for check in record.evidence.floor_checks if check.floor == HUMAN_SEAL_FLOOR]
    proposal_id = (sealed_by[-1].reason or "").split()[2] if sealed_by else ""
    key = f"decision/{proposal_id}"
    found = store.read(namespace, [key])
    if key not in found:
        raise InvalidValue(what="Record", problem="it is in VAULT, and no human's decision put it there")
    decided = Decided.from_json(parse(found[key].content or b""))
    check_decision(store, decided)
    statement = decided.approval.statement
    if statement.decision is not Decision.APPROVE or statement.payload_fingerprint != content_fingerprint(
        record
    ):
        raise InvalidValue(
            what="Record", problem=f"what {decided.approval.principal} signed is something else"
        )


def check_decision(store: Store, decided: Decided) -> None:
    """Check a decision's signature again, by the list of signers of its time."""
    approval = decided.approval
    public_key = verify(approval.signature, approval.statement.signed_bytes, SEAL_NAMESPACE)
    key = signers_key(decided.signers_fingerprint)
    found = store.read(SYSTEM_NAMESPACE, [key])
    if key not in found:
        raise InvalidValue(what="Decision", problem="the list of signers of its time is missing")
    listed = parse(found[key].content or b"")
    signers = Signers.parse(listed["allowed"], listed["revoked"])
    at = read_instant(decided.decided_at)
    if at is None or signers.fingerprint != decided.signers_fingerprint:
        raise InvalidValue(what="Decision", problem="the list of signers is not the one that it names")
    if signers.who_signed(public_key, at) != approval.principal:
        raise InvalidValue(what="Decision", problem=f"{approval.principal} did not sign it")
