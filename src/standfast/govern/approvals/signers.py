"""Signers: OpenSSH's ``allowed_signers`` file and its list of revoked keys, parsed strictly.

    ada@example.com namespaces="standfast-seal",valid-before="20270101Z" ssh-ed25519 AAAA…

Every list that is accepted here means the same to ``ssh-keygen -Y verify``. The reverse does not hold,
because some of what ssh-keygen accepts leaves open who signed, or when. Refused are: several principals or
patterns on a line (a seal names one person), a key on two lines, a line without namespaces, times without Z
(they depend on the machine's time zone), certificate authorities, and unknown options.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, Self

from standfast.errors import ApprovalError, InvalidValue, UnusableKey
from standfast.govern.approvals.sshsig import SEAL_NAMESPACE, PublicKey, is_namespace
from standfast.limits import MAX_LIST_CHARS, MAX_LIST_KEYS
from standfast.records.canon import fingerprint, utc_text
from standfast.records.vocabulary import Value

_ALLOWED: Final = "allowed signers"
_REVOKED: Final = "revoked keys"
_PRINCIPAL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@:/-]{0,127}")
_OPTION: Final = re.compile(r'(namespaces|valid-after|valid-before)="([^"\\]*)"(?:,(?=[a-z])|$)')
_FIELDS: Final = re.compile(
    r'([^ \t"]+)[ \t]+((?:[^ \t"]|"[^"]*")+)[ \t]+([^ \t"]+[ \t]+[^ \t"]+)(?:[ \t].*)?'
)
_INSTANT: Final = re.compile("([0-9]{8}(?:[0-9]{4}(?:[0-9]{2})?)?)Z")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Signer(Value, frozen=True, kw_only=True):
    """One key of one person, its namespaces and its time of validity, both ends included, to the second."""

    principal: str
    public_key: PublicKey
    namespaces: tuple[str, ...]
    valid_after: str | None = None
    valid_before: str | None = None

    def __post_init__(self) -> None:
        self._require(
            isinstance(self.principal, str) and _PRINCIPAL.fullmatch(self.principal) is not None,
            "a principal must be one name such as alice@example.com, without patterns, not"
            f" {self.principal!r:.80}",
        )
        self._require(isinstance(self.public_key, PublicKey), "public_key must be a PublicKey")
        self._require(
            bool(self.namespaces) and all(map(is_namespace, self.namespaces)),
            "namespaces must be names without patterns, for example standfast-seal",
        )
        self._require(
            tuple(sorted(set(self.namespaces))) == self.namespaces, "namespaces must be sorted and unique"
        )
        for field, instant in (("valid_after", self.valid_after), ("valid_before", self.valid_before)):
            self._require(
                instant is None or _openssh_instant(instant) is not None,
                f"{field} must be a whole second after 1970, such as 2026-01-01T00:00:00.000000Z, not"
                f" {instant!r:.80}",
            )
        if self.valid_after is not None and self.valid_before is not None:
            self._require(self.valid_after < self.valid_before, "valid-before must come after valid-after")

    @property
    def line(self) -> str:
        """The signer as a line of an ``allowed_signers`` file."""
        options = [f'namespaces="{",".join(self.namespaces)}"']
        for name, instant in (("valid-after", self.valid_after), ("valid-before", self.valid_before)):
            if instant is not None:
                options.append(f'{name}="{_openssh_instant(instant)}"')
        return f"{self.principal} {','.join(options)} {self.public_key.text}"


class Signers(Value, frozen=True, kw_only=True):
    """Everyone who may sign, and the revoked keys. Build it with ``parse``; the order of lines is free."""

    allowed: tuple[Signer, ...] = ()
    revoked: tuple[PublicKey, ...] = ()

    @classmethod
    def parse(cls, allowed: str, revoked: str = "") -> Self:
        """Parse an ``allowed_signers`` file and a file of revoked keys, one public key per line."""
        signers: dict[PublicKey, Signer] = {}
        for number, line in _lines(_ALLOWED, allowed):
            try:
                signer = _signer(line)
            except (InvalidValue, UnusableKey) as error:
                problem = error.facts["problem"]
                raise ApprovalError("invalid_signers", line=number, which=_ALLOWED, problem=problem) from None
            if signer.public_key in signers:
                problem = "its key is on another line too; a key belongs to one person and one line"
                raise ApprovalError("invalid_signers", line=number, which=_ALLOWED, problem=problem)
            signers[signer.public_key] = signer
        keys: set[PublicKey] = set()
        for number, line in _lines(_REVOKED, revoked):
            try:
                keys.add(PublicKey.read(line))
            except UnusableKey as error:
                problem = error.facts["problem"]
                raise ApprovalError("invalid_signers", line=number, which=_REVOKED, problem=problem) from None
        return cls(
            allowed=tuple(signers[key] for key in sorted(signers, key=_blob)),
            revoked=tuple(sorted(keys, key=_blob)),
        )

    def __post_init__(self) -> None:
        for field, blobs in (
            ("allowed", [signer.public_key.blob for signer in self.allowed]),
            ("revoked", [key.blob for key in self.revoked]),
        ):
            self._require(blobs == sorted(set(blobs)), f"{field} must be sorted by key, each key once")
            self._require(len(blobs) <= MAX_LIST_KEYS, f"{field} may have at most {MAX_LIST_KEYS} keys")

    @property
    def fingerprint(self) -> str:
        """A hash over the meaning of the lists, for the ledger: without comments, spaces and order."""
        return fingerprint(
            ["signers/v1", [signer.line for signer in self.allowed], [key.text for key in self.revoked]]
        )

    @property
    def allowed_text(self) -> str:
        """The allowed signers as a file for ``ssh-keygen -Y verify -f``."""
        return "".join(f"{signer.line}\n" for signer in self.allowed)

    @property
    def revoked_text(self) -> str:
        """The revoked keys as a file for ``ssh-keygen -Y verify -r``."""
        return "".join(f"{key.text}\n" for key in self.revoked)

    def who_signed(self, public_key: PublicKey, at: datetime, namespace: str = SEAL_NAMESPACE) -> str:
        """The principal of a key, if it may sign for the namespace at this time; a typed error if not."""
        key_fingerprint = public_key.fingerprint
        if public_key in self.revoked:
            raise ApprovalError("signer_revoked", key_fingerprint=key_fingerprint)
        signer = next((signer for signer in self.allowed if signer.public_key == public_key), None)
        if signer is None:
            raise ApprovalError("unknown_signer", key_fingerprint=key_fingerprint)
        if namespace not in signer.namespaces:
            raise ApprovalError("wrong_namespace", found=", ".join(signer.namespaces), needed=namespace)
        # Compared to the second, as ssh-keygen does, so that the two never disagree.
        now = utc_text(at.replace(microsecond=0))
        facts = {"key_fingerprint": key_fingerprint, "principal": signer.principal, "at": utc_text(at)}
        if signer.valid_after is not None and now < signer.valid_after:
            raise ApprovalError("signer_not_yet_valid", **facts, valid_after=signer.valid_after)
        if signer.valid_before is not None and now > signer.valid_before:
            raise ApprovalError("signer_expired", **facts, valid_before=signer.valid_before)
        return signer.principal


def _blob(key: PublicKey) -> bytes:
    return key.blob


def _lines(which: str, text: str) -> Iterator[tuple[int, str]]:
    """Yields the lines that are neither empty nor comments, with their numbers."""
    if not isinstance(text, str) or len(text) > MAX_LIST_CHARS:
        raise ApprovalError(
            "invalid_signers",
            line=1,
            which=which,
            problem=f"the list must be a text of at most {MAX_LIST_CHARS} characters",
        )
    count = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line.replace("\t", " ").isprintable():
            raise ApprovalError(
                "invalid_signers",
                line=number,
                which=which,
                problem="it has unprintable characters; remove them",
            )
        if (stripped := line.strip(" \t")) and not stripped.startswith("#"):
            count += 1
            if count > MAX_LIST_KEYS:
                raise ApprovalError(
                    "invalid_signers",
                    line=number,
                    which=which,
                    problem=f"the list may have at most {MAX_LIST_KEYS} keys",
                )
            yield number, stripped


def _signer(line: str) -> Signer:
    fields = _FIELDS.fullmatch(line)
    options = dict[str, str]()
    end = 0
    while fields and (option := _OPTION.match(fields[2], end)) and option[1] not in options:
        options[option[1]] = option[2]
        end = option.end()
    if fields is None or end != len(fields[2]) or "namespaces" not in options:
        raise InvalidValue(
            what="Signer",
            problem=(
                'it must be: principal namespaces="standfast-seal" ssh-ed25519 AAAA…; the only other options '
                "are valid-after and valid-before, each once and separated by a comma"
            ),
        )
    return Signer(
        principal=fields[1],
        public_key=PublicKey.read(fields[3]),
        namespaces=tuple(sorted(set(options["namespaces"].split(",")))),
        valid_after=_instant("valid-after", options.get("valid-after")),
        valid_before=_instant("valid-before", options.get("valid-before")),
    )


def _instant(option: str, text: str | None) -> str | None:
    """Converts the time of an OpenSSH option to json-v1 form."""
    if text is None:
        return None
    found = _INSTANT.fullmatch(text)
    try:
        moment = datetime.strptime(found[1].ljust(14, "0") + "Z", "%Y%m%d%H%M%S%z") if found else _EPOCH
    except ValueError:
        moment = _EPOCH
    if moment <= _EPOCH:
        raise InvalidValue(
            what="Signer",
            problem=f"{option} must be a UTC date or time after 1970, such as 20260101Z or 20260101123000Z",
        )
    return utc_text(moment)


def _openssh_instant(text: str) -> str | None:
    """Converts a whole second in json-v1 form to the form of an OpenSSH option; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
        whole = moment.utcoffset() is not None and moment.microsecond == 0 and utc_text(moment) == text
    except (TypeError, ValueError):
        return None
    return moment.strftime("%Y%m%d%H%M%SZ") if whole and moment > _EPOCH else None
