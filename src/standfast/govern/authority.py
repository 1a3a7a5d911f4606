"""Who may write which band, who may seal, and what always needs a human. AI proposes, humans seal.

One table of roles and bands answers the first question. The role is the writer that the audit names, not the one
that had the idea: what an agent wants remembered is written by ``888_JUDGE`` once it is judged.

    role        may write                        because
    human       VAULT LEDGER ACTIVE PHOENIX      seals law, and may write all that an agent's judge may; but a VOID
                                                 is the judge's word, and WITNESS holds observations, not opinions
    888_JUDGE   LEDGER ACTIVE PHOENIX VOID       writes what it judged, where the verdict routes it
    111_SENSE   nothing                          reads: it recalls what is there
    777_FORGE   WITNESS                          records the patterns it detects
    999_SEAL    LEDGER                           finalises the audit trail; its seal closes a commit, not a law
    system      LEDGER                           archives and leaves tombstones when it sweeps
    agent       ACTIVE PHOENIX                   keeps its session's state, and proposes

Nothing here is an approval: that is a human's signature, which ``approvals.py`` verifies.
"""

from enum import StrEnum
from functools import cache
from typing import Final, TypeVar

from standfast.errors import InvalidValue, NotAuthorised
from standfast.limits import MAX_NAME_CHARS
from standfast.vocabulary import Band

_Word = TypeVar("_Word", bound=StrEnum)


class Role(StrEnum):
    """Who writes."""

    HUMAN = "human"
    JUDGE = "888_JUDGE"
    SENSE = "111_SENSE"
    FORGE = "777_FORGE"
    SEAL = "999_SEAL"
    SYSTEM = "system"
    AGENT = "agent"


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
assert Band.VOID not in BANDS_OF_ROLE[Role.AGENT], "an agent can't bury what it said"


def may_write(role: Role | str, band: Band | str) -> bool:
    """Whether this role may be the writer of something in this band."""
    return _required(Band, band) in BANDS_OF_ROLE[_required(Role, role)]


def may_seal(role: Role | str) -> bool:
    """Whether this role may turn a proposal into law."""
    return _required(Role, role) in SEALERS


def needs_human(operation: Operation | str) -> bool:
    """Whether a human must approve this first, whoever asks for it."""
    return WHY_HUMAN[_required(Operation, operation)] is not None


def require_write(role: Role | str, band: Band | str) -> None:
    """Raise ``NotAuthorised``, naming those who may, if this role may not write this band."""
    if not may_write(role, band):
        written = _required(Band, band)
        writers = [other.value for other in Role if written in BANDS_OF_ROLE[other]]
        raise NotAuthorised(
            role=_required(Role, role).value, act=f"write to {written}", who=" or ".join(writers)
        )


def require_seal(role: Role | str) -> None:
    """Raise ``NotAuthorised`` if this role may not seal."""
    if not may_seal(role):
        raise NotAuthorised(role=_required(Role, role).value, act="seal", who=Role.HUMAN.value)


def read_word(kind: type[_Word], given: object) -> _Word | None:
    """The word of a closed set that a text names, in any case, or None.

    ASCII only, because Unicode has letters that become others in upper case: a dotless i becomes I, a long s S.
    """
    if type(given) is kind:
        return given
    text = plain_text(given)
    if text is None or len(text) > MAX_NAME_CHARS or not text.isascii():
        return None
    return _words(kind).get(text.upper())


def plain_text(given: object) -> str | None:
    """The characters of a string, an enum's or any other subclass's too, or None if it is no string."""
    return str.__str__(given) if issubclass(type(given), str) else None


@cache
def _words(kind: type[_Word]) -> dict[str, _Word]:
    return {word.value.upper(): word for word in kind}


def _required(kind: type[_Word], given: object) -> _Word:
    word = read_word(kind, given)
    if word is None:
        raise InvalidValue(what=kind.__name__, problem=f"it must be one of {', '.join(kind)}")
    return word
