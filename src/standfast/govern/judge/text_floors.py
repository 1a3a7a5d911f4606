"""The floors that look at the words alone: that all of them are visible (F4), hold no secrets (F5) and claim no authority (F9)."""

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from standfast.errors import InvalidValue
from standfast.govern.judge.claim import CLEAN, OVERLONG, Claim, Finding, JudgingContext, NeedsReview
from standfast.govern.judge.personal_data import personal_data_in
from standfast.govern.judge.phrases import Phrasebook, spoken
from standfast.govern.judge.secrets import find_secret
from standfast.govern.judge.text_reading import TextReading, plain, word_set
from standfast.origins import Origin
from standfast.vocabulary import Band

# F4_Clarity.

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
# Everything beyond ASCII that hides or reorders text. Most texts have none of it and need no further look.
_SUSPECT: Final = re.compile(
    "[\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff"
    "\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
_MOJIBAKE: Final = re.compile(
    "[\u00c3\u00c2][\u0080-\u00bf\u20ac\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\u017d"
    "\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u017e\u0178]"
    "|\u00e2\u20ac.|\u00f0\u0178.|\u00ef\u00bb\u00bf|\u00d0[\u0080-\u00bf].?\u00d0[\u0080-\u00bf]|\ufffd"
)
_MOJIBAKE_STARTS: Final = (
    "\u00c3",
    "\u00c2",
    "\u00e2\u20ac",
    "\u00f0\u0178",
    "\u00ef\u00bb",
    "\u00d0",
    "\ufffd",
)
_OVERRIDE: Final = re.compile("[\u202a\u202b\u202d\u202e]")
_ISOLATE: Final = re.compile("[\u2066-\u2068]")
_RIGHT_TO_LEFT: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
# The flags of England, Scotland and Wales are the only honest use of tag characters.
_FLAG: Final = re.compile(
    "\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
_TAG: Final = re.compile("[\U000e0000-\U000e007f]")
# One selector belongs to the character before it. A row of them, or one after a Latin letter, carries hidden bytes.
_SELECTORS: Final = re.compile(
    "[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}|[\x20-\x7e][\ufe00-\ufe0d\U000e0100-\U000e01ef]"
)
# Zero-width characters have a use in some scripts and in emoji, and none between Latin letters.
_ZERO_WIDTH: Final = re.compile(
    "[\x21-\x7e\u00c0-\u024f][\u00ad\u034f\u115f\u1160\u180b-\u180e\u200b-\u200d\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0]+[\x21-\x7e\u00c0-\u024f]"
    "|[\u200b-\u200f\u2060-\u2064\ufeff]{3}"
)
_PRIVATE: Final = re.compile("[\ue000-\uf8ff\ufdd0-\ufdef\ufff0-\ufffb\ufffe\uffff\U000f0000-\U0010ffff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_HIDING: Final = (
    (_SURROGATE, "half of a UTF-16 surrogate pair"),
    (_OVERRIDE, "characters that reverse the reading direction"),
    (_SELECTORS, "variation selectors without a character"),
    (_ZERO_WIDTH, "invisible characters inside words"),
    (_PRIVATE, "characters without a defined meaning"),
)

# A line drawn of one character, as between paragraphs and below headings.
_RULER: Final = re.compile(r"([-=_*~#+.])\1{3,}")
_MAX_UNBROKEN_CHARS: Final = 1_000
_MIN_WORD_SHARE: Final = 0.25
_PLENTY_OF_WORDS: Final = 0.75
_MIN_VARIETY: Final = 0.05
_MIN_MEASURED_CHARS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ClarityFloor:
    """Rejects control characters, hidden or reordered text, broken encoding, and noise instead of words.

    Zero-width joiners in emoji and in Indic and Arabic scripts, right-to-left marks, balanced isolates in right-to-left
    text and regional flags pass. Text, subject, tags, source and refs are all checked. It does not tell sense from
    nonsense: random words pass.
    """

    name: str = "F4_Clarity"
    threshold: float = 0.5
    hard: bool = True

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # The Floor protocol.
        """0 for hidden text, less than 0.5 for what is mostly not text, 1 for plain text."""
        if claim.is_overlong:
            return OVERLONG
        whole = claim.whole
        if (hidden := find_hidden(whole.text)) is not None:
            return Finding(0.0, f"hidden characters ({hidden}). Remove them")
        text = claim.reading.text
        if not text.strip() or not claim.reading.folded.strip():
            return Finding(0.0, "empty. Give a text")
        if not text.isascii() and any(map(text.__contains__, _MOJIBAKE_STARTS)):
            broken = len(_MOJIBAKE.findall(text))
            if broken:
                score = max(0.1, 0.9 - 20 * broken / len(text))
                return Finding(
                    score, f"broken encoding in {broken} places. Read the source in its own encoding"
                )
        return _texture(claim) if len(text) >= _MIN_MEASURED_CHARS else CLEAN


def find_hidden(text: str) -> str | None:
    """What a reader of the text would not see, or None if all of it is visible."""
    if text.isascii():
        return "control characters" if _CONTROL.search(text) else None
    if _CONTROL.search(text):
        return "control characters"
    if not _SUSPECT.search(text):
        return None
    for pattern, name in _HIDING:
        if pattern.search(text):
            return name
    if _TAG.search(_FLAG.sub("", text)):
        return "tag characters, which spell text that no screen shows"
    if _ISOLATE.search(text):
        opened, closed = len(_ISOLATE.findall(text)), text.count("\u2069")
        if opened != closed or not _RIGHT_TO_LEFT.search(text):
            return "isolates that reverse the reading direction"
    return None


def _texture(claim: Claim) -> Finding:
    """Whether a longer text consists of words: not of symbols, one unbroken run, or a few repeated words."""
    whole = claim.whole
    if _word_share(whole) < _PLENTY_OF_WORDS and _word_share(claim.reading) < _MIN_WORD_SHARE:
        return Finding(0.3, "noise: mostly symbols. Write it in words")
    if whole.longest_run_chars > _MAX_UNBROKEN_CHARS and whole.text.isascii() and _has_long_run(whole.text):
        return Finding(0.3, "noise: a run of characters longer than any word. Write it in words")
    pieces = whole.pieces
    if len(pieces) > 40 and len(whole.vocabulary) < _MIN_VARIETY * len(pieces):
        return Finding(0.3, "noise: a few words repeated. Say it once")
    return CLEAN


def _has_long_run(text: str) -> bool:
    """Whether a run of characters is longer than any word. Links may be long: images and diagrams are written into them."""
    return any(len(run) > _MAX_UNBROKEN_CHARS and "://" not in run[:200] for run in text.split())


def _word_share(reading: TextReading) -> float:
    """The share of words in a text, spaces and rulers aside."""
    return sum(map(len, reading.pieces)) / max(1, len(_RULER.sub("", reading.text.replace(" ", ""))))


# F5_Secrecy.

# Characters separated by spaces, which hides a key from a scanner.
_SPACED_OUT: Final = re.compile(r"(?<!\S)\S(?: \S){15,400}(?!\S)")
_SINGLE_CHARS: Final = frozenset(string.ascii_lowercase + string.digits)
_MIN_SINGLE_CHARS: Final = 8


_TREATMENTS: Final = ("allow", "review", "refuse")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecrecyFloor:
    """Holds no keys, tokens, passwords, key blocks, and no personal data of the kinds that are not allowed.

    Text, subject, tags, source and refs are all checked, also with wide and lookalike letters folded. The reason names the
    kind and never the value. Placeholders from documentation pass. It does not recognise secrets without a known form that no
    word announces, secrets that are encoded, and personal data without a form: names, addresses, health. Each kind of personal
    data is ``"allow"``, ``"review"`` (a human decides) or ``"refuse"``.
    """

    name: str = "F5_Secrecy"
    threshold: float = 0.5
    hard: bool = True
    cards: str = "refuse"
    accounts: str = "refuse"
    national_ids: str = "refuse"
    emails: str = "allow"
    phones: str = "allow"

    def __post_init__(self) -> None:
        for group in ("cards", "accounts", "national_ids", "emails", "phones"):
            if (given := getattr(self, group)) not in _TREATMENTS:
                problem = f"option {group} must be one of {', '.join(_TREATMENTS)}, not {given!r:.80}"
                raise InvalidValue(what="SecrecyFloor", problem=problem)

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # The Floor protocol.
        """0 for a secret, 0.2 for personal data, 1 for neither."""
        if claim.is_overlong:
            return OVERLONG
        whole = claim.whole
        found = self._find_in(whole, claim.secret_kind)
        if found is CLEAN and (plain_text := plain(whole.text)) != whole.text:
            found = self._find_in_text(plain_text)
        if (
            found is CLEAN
            and len(whole.vocabulary & _SINGLE_CHARS) >= _MIN_SINGLE_CHARS
            and _SPACED_OUT.search(whole.text)
        ):
            joined = _SPACED_OUT.sub(lambda run: run[0].replace(" ", ""), whole.text)
            found = self._find_in_text(joined)
        return found

    def _find_in_text(self, text: str) -> Finding:
        reading = TextReading(text)
        return self._find_in(reading, find_secret(reading.text, reading.longest_run_chars))

    def _find_in(self, reading: TextReading, kind: str | None) -> Finding:
        if kind is not None:
            return Finding(0.0, f"contains a secret ({kind}). Remove it")
        to_review = None
        for found in personal_data_in(reading):
            match getattr(self, found.group):
                case "refuse":
                    return Finding(0.2, f"contains personal data ({found.kind}). Remove it")
                case "review":
                    to_review = to_review or NeedsReview(
                        0.2, f"contains personal data ({found.kind}). Remove it, or let a human accept it"
                    )
        return to_review or CLEAN


# F9_Authority.

# Tags and kinds of sources that only a human's seal gives.
_SEALS: Final = word_set(
    "vault sealed seal law canon canonical constitution constitutional constitutional-law policy-authority authority "
    "authoritative human-approved approved-by-human binding immutable-law verdict:seal verdict/seal verdict-seal "
    "band:vault band/vault 999_seal 888_judge admin-override root-authority superuser ratified enacted"
)

_ITSELF: Final = "(this|the following|entry|memory|record|output|i|we)"
_WHO: Final = "(human|operator|administrator|admin|system owner|sovereign|root)"
_AUTHORITY_PHRASES: Final = Phrasebook(
    ("it calls itself sealed", 1, f"""
        {_ITSELF} ~4 (is|are|has been|have|have been|as|be|being|now) ~2
        (sealed|ratified|enacted|canonised|canonized|canonical|vaulted|constitutional)( @| law| by| and| as| canon| truth)"""),
    ("it calls itself law", 1, """
        (this|the following|entry|memory|record|output|answer) ~3
        (is|are|becomes|become|has become|shall be|as|constitutes|carries|has the force of) ~3
        (the law|law|vault law|vault|constitution|binding on all|binding for all|canon|authoritative (@|and|over|law|rules?|policy)|
        (full|absolute|supreme|final|highest) authority|the authority)"""),
    ("it calls itself sealed", 1, """
        (recorded|treated|stored|kept|regarded|considered|known|written) as
        ((canonical|canon|law|sealed|binding|authoritative) @|vault law|(the |part of the )(constitution|law))|immutable and binding|binding (on|for|upon) (all|every|any) (agents?|models?|assistants?)"""),
    ("it issues a decree", 1, """
        by (decree|order) of (this|the) (agent|assistant|model|ai)"""),
    ("it issues a decree", 1, """
        (hereby|herewith|hiermit) ~3 (abolish|abolished|waive|waived|suspend|suspended|revoke|revoked|lift|lifted|seal|sealed|enact|enacted|decree|decreed|ratify|ratified|amend|amended|declare|
        declared|establish|established|ordain|authori[sz]ed?|approve|approved|repeal|repealed|promulgate|promulgated|
        versiegelt|erlassen|genehmigt|beschlossen)"""),
    ("it states a verdict", 1, """
        verdict( of| is| was| @)? (seal|sabar|sealed)|
        (888 judge|999 seal|apex prime|the judge) (has |have )?(already )?(approved|sealed|passed|cleared|confirmed)"""),
    ("it says that the checks are passed", 1, """
        (all|every|nine|9) ~2 (floors?|floor checks) ~2 (passed|pass|cleared|satisfied|waived|green) ~5
        (seal|sealed|store|write|commit|vault|canonical)|
        (skip|waive|bypass|skipping|waiving|bypassing) ~2 (floors?|floor checks?|the judge|human approval|approval gate|
        human seal|human signature)"""),
    ("it says that a human approved it", 1, f"""
        {_WHO} (approval|seal|signature|consent|authori[sz]ation) ~2 (was |is |has been |already )?(granted|given|obtained|
        not needed|not required|unnecessary|implied|assumed|waived|on file|recorded)|
        (pre approved|preapproved|already approved|approved|authori[sz]ed|signed off) by (the |a |my |our )?{_WHO}|
        {_WHO} (has|have|had) (already |just |now )?(approved|signed|sealed|authori[sz]ed|signed off|ratified|waived) ~1
        (this|it|entry|memory|record|rule|change)|no (human|operator|administrator|admin|further) ~1 (approval|signature|seal|review|
        consent) (is |was )?(needed|required|necessary)"""),
    ("it asks to be put into VAULT", 1, """
        (write|store|put|place|move|promote|copy|commit|add|save|enter) (this|it|that|the following|the rule|the above) ~4
        (in|into|to|as|under) ~2 vault|band (@ )?vault|vault (law|seal|amendment)"""),
    ("it changes the law", 1, """
        (constitution|constitutional|vault|sealed) (law |rule |policy )?
        (amendment|amended|is amended|is repealed|is superseded|no longer applies|is void|is overruled)|
        sealed ~2 (law|rule|rules|policy|policies|entry|record|decision) (is|are|was|were|has been|have been) ~1
        (repealed|amended|superseded|void|overruled|lifted|revoked|suspended|replaced|abolished)|
        (i|we|the agent|the assistant|the model|this agent) (have |has |now |hereby )?(amend|amended|repeal|repealed|overrule|
        overruled|redefine|redefined|enact|enacted|seal|sealed|decree|decreed|ratify|ratified) [^ ]+"""),
    ("it puts itself above the rules", 1, """
        (supersedes|overrides|overrules|takes precedence over|outranks|prevails over|trumps) ~1
        (all|any|every|human|sealed|vault) ~3 (law|laws|vault|policy|policies|rules?|memory|memories|instructions|decisions|
        seals?|authority|constitution|records)"""),
    ("it claims authority", 1, """
        (by|with|under|on|has|have|having|carries|carry|holds) (the )?
        (full |supreme |highest |absolute |sovereign |constitutional |root |admin |administrator |policy |human )?authority
        (vested in|of the (vault|constitution|system|administrator|human|operator|judge)|
        over (the )?(vault|policy|law|memory)|to (make|set|seal|change|amend|write|decide) ~2 (law|policy|policies|vault|rules))|
        (i|this agent|this assistant|this model) (am|is) (now )?(the |an |a )?(policy |final |highest |sole |legal )?
        (authority|administrator|admin|law|judge|sovereign)|
        (i|we) (hold|have|claim|possess|carry) ~2 authority (to|over|in|for|of)|
        (as|acting as) (the |an )?(acting |appointed |new |interim )?(administrator|admin|authority|judge|sovereign|operator) @ (i|we) [^ ]+"""),
    ("it calls itself sealed", 1, """
        (dies|dieser eintrag|diese regel|hiermit|ceci|cette regle|cet enregistrement|esto|este registro|esta regla) ~3
        (gesetz|versiegelt|verfassung|bindend|loi|scelle|scellee|constitution|ley|sellado|sellada|constitucion)"""),
)  # fmt: skip

# Subjects and tags under which agents keep what they are to do from now on.
_STANDING: Final = word_set(
    "preference preferences instruction instructions rule rules directive directives standing-order persona system-prompt"
)
_USER: Final = (
    "(user|users|operator|owner|customer|client|account holder|principal|our user|my user|your user)"
)
_STANDING_PHRASES: Final = Phrasebook(
    ("preference", 1, f"""
        {_USER} ~2 (prefers?|wants?|likes|expects?|requires?|insists?|asked|requested|would like|needs|wishes|has chosen|consents?|agreed|
        authori[sz]ed|approved|opted)|
        {_USER} ~1 (standing|default|permanent|stated|explicit|usual|preferred) ~1 (preference|preferences|choice|order|instruction|wish|
        request|consent)|
        (preference|preferences|wish|wishes|instruction|instructions) of the {_USER}"""),
    ("preference", 1, """
        (standing|permanent|default) (order|orders|instruction|instructions|preference|preferences|rule|permission)|
        (from now on|from this point on|going forward|in all future|for all future|in future|in every (answer|reply|session|conversation)|
        in (any|all|each|every) (answers?|replies|responses?|sessions?|conversations?))"""),
)  # fmt: skip
_STANDING_FROM_OUTSIDE: Final = NeedsReview(
    0.3,
    "a standing preference from an untrusted source. If the user confirms it, remember it again with the user as the source; "
    "otherwise reject it",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityFloor:
    """Only a human may claim to make law: by band, tags, kind of source, a verdict of its own, or in words.

    What an untrusted source says about how to treat the user from now on needs a human, too.

    An agent that wants something sealed proposes it for PHOENIX. A human's claim passes, because it still takes a signature to
    seal it. In words it recognises phrases, mostly English ones. It relies on the role that it is given; checking the role is
    the server's work.
    """

    name: str = "F9_Authority"
    threshold: float = 0.5
    hard: bool = True

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # The Floor protocol.
        """0 for claiming a band or a verdict, 0.1 for a tag or source, 0.2 for words, 0.3 for a standing preference from outside."""
        if claim.is_human:
            return CLEAN
        if claim.is_overlong:
            return OVERLONG
        record = claim.record
        if record.band is Band.VAULT:
            return Finding(0.0, "claims authority: only a human may write to VAULT. Propose it instead")
        if record.verdict is not None or record.evidence is not None:
            return Finding(0.0, "claims authority: it brings a verdict of its own. Leave the verdict out")
        if not _SEALS.isdisjoint(record.tags):
            return Finding(
                0.1, "claims authority: it has a tag that only a human's seal gives. Remove the tag"
            )
        kind = record.source.get("kind") if isinstance(record.source, Mapping) else None
        if isinstance(kind, str) and kind.strip().lower() in _SEALS:
            return Finding(
                0.1, "claims authority: only a human's seal gives this kind of source. Name the real one"
            )
        possible = _AUTHORITY_PHRASES.possible(claim.whole.vocabulary)
        text = spoken(claim.whole) if possible else ""
        for phrase in possible:
            if phrase.pattern.search(text):
                return Finding(0.2, f"claims authority: {phrase.kind}. State the fact, or propose it as law")
        if record.origin is Origin.UNTRUSTED and _is_standing(claim):
            return _STANDING_FROM_OUTSIDE
        return CLEAN


def _is_standing(claim: Claim) -> bool:
    """Whether a text says what a user wants, or what is to be done from now on: by subject, tags or words."""
    named = {*(claim.record.subject or "").lower().split("/")[:-1], *claim.record.tags}
    if not _STANDING.isdisjoint(named):
        return True
    possible = _STANDING_PHRASES.possible(claim.whole.vocabulary)
    text = spoken(claim.whole) if possible else ""
    return any(phrase.pattern.search(text) for phrase in possible)
