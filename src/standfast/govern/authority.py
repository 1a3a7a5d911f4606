"""Authority: which role may write which band, who may seal, and which operations need a human.

One table has the roles and their bands. The role is the writer that the audit names, not the one that had the
idea: what an agent wants remembered is written by ``888_JUDGE`` after it was judged.

    role        may write                        because
    human       VAULT LEDGER ACTIVE PHOENIX      seals law, and may write what an agent's judge may; but VOID
                                                 is for the judge's rejections, and WITNESS for observations
    888_JUDGE   LEDGER ACTIVE PHOENIX VOID       writes what it judged, where the verdict routes it
    111_SENSE   nothing                          only reads
    777_FORGE   WITNESS                          records patterns of rejections
    999_SEAL    LEDGER                           completes the audit trail; closes a commit, seals no law
    system      LEDGER                           archives and leaves tombstones in retention sweeps
    agent       ACTIVE PHOENIX                   keeps its session's state, and proposes

A role is not an approval. An approval is a human's signature, which ``approvals/`` verifies.
"""

from enum import StrEnum
from functools import cache
from typing import Final, TypeVar

from standfast.errors import InvalidValue, NotAuthorised
from standfast.limits import MAX_NAME_CHARS
from standfast.records.vocabulary import Band

_Word = TypeVar("_Word", bound=StrEnum)


class Role(StrEnum):
    """Who writes a record."""

    HUMAN = "human"
    JUDGE = "888_JUDGE"
    SENSE = "111_SENSE"
    FORGE = "777_FORGE"
    SEAL = "999_SEAL"
    SYSTEM = "system"
    AGENT = "agent"


def checked_role(role: str) -> str:
    """The name of a role. Raises ``InvalidValue`` if there is none of this name."""
    try:
        return _NAME_OF_ROLE[role]
    except (KeyError, TypeError):
        roles = ", ".join(Role)
        raise InvalidValue(what="role", problem=f"{role!r:.80} is none of {roles}") from None


_NAME_OF_ROLE: Final[dict[str, str]] = {role: role.value for role in Role}


class Operation(StrEnum):
    """What is to be done. The first four are the document's human approval gates."""

    VAULT_WRITE = "vault_write"
    HOLD_VERDICT = "hold_verdict"
    AMENDMENT_SEALING = "amendment_sealing"
    CONSTITUTION_MODIFICATION = "constitution_modification"
    BAND_WRITE = "band_write"
    PROPOSAL = "proposal"
    RECALL = "recall"
    RETENTION_SWEEP = "retention_sweep"


BANDS_OF_ROLE: Final = {
    Role.HUMAN: frozenset({Band.VAULT, Band.LEDGER, Band.ACTIVE, Band.PHOENIX}),
    Role.JUDGE: frozenset({Band.LEDGER, Band.ACTIVE, Band.PHOENIX, Band.VOID}),
    Role.SENSE: frozenset[Band](),
    Role.FORGE: frozenset({Band.WITNESS}),
    Role.SEAL: frozenset({Band.LEDGER}),
    Role.SYSTEM: frozenset({Band.LEDGER}),
    Role.AGENT: frozenset({Band.ACTIVE, Band.PHOENIX}),
}
SEALERS: Final = frozenset({Role.HUMAN})
WHY_HUMAN: Final = {
    Operation.VAULT_WRITE: "Constitutional law",
    Operation.HOLD_VERDICT: "High-stakes decision",
    Operation.AMENDMENT_SEALING: "AI proposes, humans seal",
    Operation.CONSTITUTION_MODIFICATION: "Self-modification protection",
    Operation.BAND_WRITE: None,
    Operation.PROPOSAL: None,
    Operation.RECALL: None,
    Operation.RETENTION_SWEEP: None,
}
assert set(BANDS_OF_ROLE) == set(Role)
assert set(WHY_HUMAN) == set(Operation)
assert set().union(*BANDS_OF_ROLE.values()) == set(Band), "every band has a writer"
assert {role for role, bands in BANDS_OF_ROLE.items() if Band.VAULT in bands} == SEALERS == {Role.HUMAN}
assert Band.VOID not in BANDS_OF_ROLE[Role.AGENT], "an agent cannot hide what it said by rejecting it"


def may_write(role: Role | str, band: Band | str) -> bool:
    """Whether a role may write to a band."""
    if type(band) is not Band or type(role) is not Role:
        band, role = _required(Band, band), _required(Role, role)
    return band in BANDS_OF_ROLE[role]


def may_seal(role: Role | str) -> bool:
    """Whether a role may seal a proposal."""
    return _required(Role, role) in SEALERS


def needs_human(operation: Operation | str) -> bool:
    """Whether an operation needs a human's approval, whoever asks for it."""
    return WHY_HUMAN[_required(Operation, operation)] is not None


def require_write(role: Role | str, band: Band | str) -> None:
    """Raises ``NotAuthorised``, which names the roles that may, unless the role may write to the band."""
    if not may_write(role, band):
        target = _required(Band, band)
        writers = [other.value for other in Role if target in BANDS_OF_ROLE[other]]
        raise NotAuthorised(
            role=_required(Role, role).value, act=f"write to {target}", who=" or ".join(writers)
        )


def require_seal(role: Role | str) -> None:
    """Raises ``NotAuthorised`` unless the role may seal."""
    if not may_seal(role):
        raise NotAuthorised(role=_required(Role, role).value, act="seal", who=Role.HUMAN.value)


def read_word(kind: type[_Word], given: object) -> _Word | None:
    """The member of an enum that a text names, in any case, or None.

    ASCII only: some Unicode letters become others in upper case, as a dotless i becomes I, a long s S.
    """
    if type(given) is kind:
        return given
    text = plain_text(given)
    if text is None or len(text) > MAX_NAME_CHARS or not text.isascii():
        return None
    return _words(kind).get(text.upper())


def plain_text(given: object) -> str | None:
    """The characters of a string or an instance of a subclass, such as an enum; None for anything else."""
    return str.__str__(given) if issubclass(type(given), str) else None


@cache
def _words(kind: type[_Word]) -> dict[str, _Word]:
    return {word.value.upper(): word for word in kind}


def _required(kind: type[_Word], given: object) -> _Word:
    word = read_word(kind, given)
    if word is None:
        raise InvalidValue(what=kind.__name__, problem=f"it must be one of {', '.join(kind)}")
    return word
