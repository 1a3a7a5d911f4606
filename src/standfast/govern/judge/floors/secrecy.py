"""F5_Secrecy: a claim holds no credentials and no personal data."""

import re
import string
from dataclasses import dataclass
from typing import Final

from standfast.govern.judge.floors.claim import CLEAN, OVERLONG, Claim, Finding, JudgingContext
from standfast.govern.judge.reading.folding import plain
from standfast.govern.judge.reading.words import TextReading
from standfast.govern.judge.signs.credentials import credential_in
from standfast.govern.judge.signs.personal import personal_in

# Characters one by one, as one writes them to get a key past a scanner.
_SPELLED: Final = re.compile(r"(?<!\S)\S(?: \S){15,400}(?!\S)")
_SINGLE: Final = frozenset(string.ascii_lowercase + string.digits)
_LEAST_SINGLE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SecrecyFloor:
    """No keys, tokens, passwords, key blocks, card numbers, bank accounts, national ids, or contacts of a person.

    Text, subject, tags, source and refs are all read, also with wide and lookalike letters made plain. The reason names the kind and never the value. Placeholders of
    documentation pass. It does not know secrets without a known form that no word beside them gives away, secrets that
    are encoded or split, and personal data that has no form: names, addresses, health. Turn ``personal`` off where
    people's data is what memory is for, and guarded otherwise.
    """

    name: str = "F5_Secrecy"
    threshold: float = 0.5
    hard: bool = True
    personal: bool = True

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # A floor's signature.
        """0 for a credential, 0.2 for personal data, 1 for neither."""
        if claim.is_overlong:
            return OVERLONG
        whole = claim.whole
        found = self._found_in(whole)
        if found is CLEAN and (bare := plain(whole.text)) != whole.text:
            found = self._found_in(TextReading(bare))
        if (
            found is CLEAN
            and len(whole.vocabulary & _SINGLE) >= _LEAST_SINGLE
            and _SPELLED.search(whole.text)
        ):
            found = self._found_in(TextReading(_SPELLED.sub(lambda run: run[0].replace(" ", ""), whole.text)))
        return found

    def _found_in(self, reading: TextReading) -> Finding:
        if (kind := credential_in(reading.text, reading.longest_run_chars)) is not None:
            return Finding(0.0, f"secret: {kind}")
        if self.personal and (kind := personal_in(reading)) is not None:
            return Finding(0.2, f"personal: {kind}")
        return CLEAN
