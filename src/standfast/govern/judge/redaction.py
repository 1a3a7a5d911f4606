"""Redaction: a refused secret is replaced by its kind before anything of its record is stored.

``redacted`` returns a record without secrets and personal data. Evidence, ledger, notes and traces are made from that one, so that
neither the secret nor a fingerprint of it exists anywhere. What is found only in disguise, or spread over fields, can't be cut out;
then the whole content is replaced.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from standfast.govern.judge.claim import NOTHING_KNOWN, Claim
from standfast.govern.judge.personal_data import CONTACT_GROUPS, personal_data_in
from standfast.govern.judge.secrets import secrets_in
from standfast.govern.judge.text_floors import SecrecyFloor
from standfast.govern.judge.text_reading import READ_CHARS, TextReading
from standfast.limits import MAX_NAME_CHARS
from standfast.remember_request import RememberRequest
from standfast.scopes import SHARED
from standfast.vocabulary import Record, normal_tags

_FLOOR: Final = SecrecyFloor()
SECRECY_FLOOR: Final = _FLOOR.name
_TOO_LONG: Final = f"longer than the {READ_CHARS} characters that can be checked"
_KIND: Final = re.compile(r"\((.*)\)")


def redacted(record: Record) -> Record:
    """The record with every secret replaced by its kind; the same object if it has none."""
    return _redacted(Claim(record=record))


def _redacted(claim: Claim) -> Record:
    record, reason = claim.record, _reason(claim)
    if not reason:
        return record
    parts = _parts(claim.whole)
    cut = _rebuilt(record, lambda text: _cut(text, parts))
    if not _reason(Claim(record=cut)):
        return cut
    kind = _KIND.search(reason)
    return _rebuilt(record, lambda _: f"[redacted: {kind[1] if kind else _TOO_LONG}]")


def claim_of(request: RememberRequest) -> Claim:
    """The claim of a request before it has an id and a time."""
    return Claim(record=request.record("request", None))


def redacted_request(request: RememberRequest, claim: Claim | None = None) -> RememberRequest:
    """The request as a trace may record it; the same object if it has no secret. ``claim`` is its ``claim_of``, if it is there already."""
    claim = claim or claim_of(request)
    without = _redacted(claim)
    if without is claim.record:
        return request
    return msgspec.structs.replace(
        request,
        text=without.text,
        subject=without.subject,
        source=without.source,
        refs=without.refs,
        tags=without.tags,
        scope=without.scope,
        metadata=without.metadata,
        session=without.session,
        speaker=without.speaker,
    )


def _reason(claim: Claim) -> str:
    return _FLOOR.check(claim, NOTHING_KNOWN).reason


def _rebuilt(record: Record, change: Callable[[str], str]) -> Record:
    """The record with every text in it changed. Its id changes if the id was its subject and that one changed."""
    subject = None if record.subject is None else change(record.subject)
    return msgspec.structs.replace(
        record,
        memory_id=record.memory_id if subject == record.subject or subject is None else subject,
        text=change(record.text),
        subject=subject,
        tags=normal_tags(tuple(map(change, record.tags))),
        source=_changed(record.source, change),
        scope=_scope_of(record),
        metadata=_changed(record.metadata, change),
        session=None if record.session is None else change(record.session)[:MAX_NAME_CHARS],
        speaker=None if record.speaker is None else change(record.speaker)[:MAX_NAME_CHARS],
        refs=tuple(_changed(ref, change) for ref in record.refs),
    )


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(str(name)): _changed(member, change) for name, member in value.items()}
    return [_changed(member, change) for member in value] if isinstance(value, list | tuple) else value


def _parts(whole: TextReading) -> list[tuple[str, str]]:
    """The secrets of a claim, each as its kind and its text, longest first."""
    parts = {(found.kind, found.part) for found in secrets_in(whole.text, whole.longest_run_chars)}
    parts |= {
        (found.kind, found.part) for found in personal_data_in(whole) if found.group not in CONTACT_GROUPS
    }
    return sorted(parts, key=lambda found: (-len(found[1]), found))


def _cut(text: str, parts: list[tuple[str, str]]) -> str:
    """The text with each secret replaced, in any case, together with the characters that are attached to it."""
    for kind, part in parts:
        text = re.sub(rf"\S*{re.escape(part)}\S*", f"[redacted: {kind}]", text, flags=re.IGNORECASE)
    return text


def _scope_of(record: Record) -> str:
    """The record's scope; ``shared`` if the scope itself is a secret."""
    is_secret = record.scope != SHARED and _reason(Claim(record=Record(memory_id="scope", text=record.scope)))
    return SHARED if is_secret else record.scope
