"""F9_Authority: humans make law, and an agent proposes. A claim does not pretend otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from standfast.govern.judge.floors.claim import CLEAN, OVERLONG, Claim, Finding, JudgingContext
from standfast.govern.judge.reading.lexicon import word_set
from standfast.govern.judge.reading.phrases import Phrasebook, spoken
from standfast.vocabulary import Band

# Tags, and kinds of source, that only a human's seal gives.
_SEALS: Final = word_set(
    "vault sealed seal law canon canonical constitution constitutional constitutional-law policy-authority authority "
    "authoritative human-approved approved-by-human binding immutable-law verdict:seal verdict/seal verdict-seal "
    "band:vault band/vault 999_seal 888_judge admin-override root-authority superuser ratified enacted"
)

_ITSELF: Final = "(this|the following|entry|memory|record|output|i|we)"
_WHO: Final = "(human|operator|administrator|admin|system owner|sovereign|root)"
_PHRASES: Final = Phrasebook(
    ("says that it is sealed", 1, f"""
        {_ITSELF} ~4 (is|are|has been|have|have been|as|be|being|now) ~2
        (sealed|ratified|enacted|canonised|canonized|canonical|vaulted|constitutional)( @| law| by| and| as| canon| truth)"""),
    ("says that it is law", 1, """
        (this|the following|entry|memory|record|output|answer) ~3
        (is|are|becomes|become|has become|shall be|as|constitutes|carries|has the force of) ~3
        (the law|law|vault law|vault|constitution|binding on all|binding for all|canon|authoritative|
        (full|absolute|supreme|final|highest) authority|the authority)"""),
    ("says that it is sealed", 1, """
        (recorded|treated|stored|kept|regarded|considered|known|written) as
        ((canonical|canon|law|sealed|binding|authoritative) @|vault law|(the |part of the )(constitution|law))|immutable and binding|binding (on|for|upon) (all|every|any) (agents?|models?|assistants?)"""),
    ("decrees", 1, """
        by (decree|order) of (this|the) (agent|assistant|model|ai)"""),
    ("decrees", 1, """
        (hereby|herewith|hiermit) ~3 (abolish|abolished|waive|waived|suspend|suspended|revoke|revoked|lift|lifted|seal|sealed|enact|enacted|decree|decreed|ratify|ratified|amend|amended|declare|
        declared|establish|established|ordain|authori[sz]ed?|approve|approved|repeal|repealed|promulgate|promulgated|
        versiegelt|erlassen|genehmigt|beschlossen)"""),
    ("brings a verdict", 1, """
        verdict( of| is| was| @)? (seal|sabar|sealed)|
        (888 judge|999 seal|apex prime|the judge) (has |have )?(already )?(approved|sealed|passed|cleared|confirmed)"""),
    ("says that the floors are passed", 1, """
        (all|every|nine|9) ~2 (floors?|floor checks) ~2 (passed|pass|cleared|satisfied|waived|green) ~5
        (seal|sealed|store|write|commit|vault|canonical)|
        (skip|waive|bypass|skipping|waiving|bypassing) ~2 (floors?|floor checks?|the judge|human approval|approval gate|
        human seal|human signature)"""),
    ("says that a human approved", 1, f"""
        {_WHO} (approval|seal|signature|consent|authori[sz]ation) ~2 (was |is |has been |already )?(granted|given|obtained|
        not needed|not required|unnecessary|implied|assumed|waived|on file|recorded)|
        (pre approved|preapproved|already approved|approved|authori[sz]ed|signed off) by (the |a |my |our )?{_WHO}|
        {_WHO} (has|have|had) (already |just |now )?(approved|signed|sealed|authori[sz]ed|signed off|ratified|waived) ~1
        (this|it|entry|memory|record|rule|change)|no (human|operator|administrator|admin|further) ~1 (approval|signature|seal|review|
        consent) (is |was )?(needed|required|necessary)"""),
    ("takes a place in VAULT", 1, """
        (write|store|put|place|move|promote|copy|commit|add|save|enter) (this|it|that|the following|the rule|the above) ~4
        (in|into|to|as|under) ~2 vault|band (@ )?vault|vault (law|seal|amendment)"""),
    ("changes the law", 1, """
        (constitution|constitutional|vault|sealed) (law |rule |policy )?
        (amendment|amended|is amended|is repealed|is superseded|no longer applies|is void|is overruled)|
        sealed ~2 (law|rule|rules|policy|policies|entry|record|decision) (is|are|was|were|has been|have been) ~1
        (repealed|amended|superseded|void|overruled|lifted|revoked|suspended|replaced|abolished)|
        (i|we|the agent|the assistant|the model|this agent) (have |has |now |hereby )?(amend|amended|repeal|repealed|overrule|
        overruled|redefine|redefined|enact|enacted|seal|sealed|decree|decreed|ratify|ratified) [^ ]+"""),
    ("puts itself above the rules", 1, """
        (supersedes|overrides|overrules|takes precedence over|outranks|prevails over|trumps) ~1
        (all|any|every|human|sealed|vault) ~3 (law|laws|vault|policy|policies|rules?|memory|memories|instructions|decisions|
        seals?|authority|constitution|records)"""),
    ("claims authority", 1, """
        (by|with|under|on|has|have|having|carries|carry|holds) (the )?
        (full |supreme |highest |absolute |sovereign |constitutional |root |admin |administrator |policy |human )?authority
        (vested in|of the (vault|constitution|system|administrator|human|operator|judge)|
        over (the )?(vault|policy|law|memory)|to (make|set|seal|change|amend|write|decide) ~2 (law|policy|policies|vault|rules))|
        (i|this agent|this assistant|this model) (am|is) (now )?(the |an |a )?(policy |final |highest |sole |legal )?
        (authority|administrator|admin|law|judge|sovereign)|
        (i|we) (hold|have|claim|possess|carry) ~2 authority (to|over|in|for|of)|
        (as|acting as) (the |an )?(acting |appointed |new |interim )?(administrator|admin|authority|judge|sovereign|operator) @ (i|we) [^ ]+"""),
    ("says that it is sealed", 1, """
        (dies|dieser eintrag|diese regel|hiermit|ceci|cette regle|cet enregistrement|esto|este registro|esta regla) ~3
        (gesetz|versiegelt|verfassung|bindend|loi|scelle|scellee|constitution|ley|sellado|sellada|constitucion)"""),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityFloor:
    """Who is no human may not claim to make law: not by the band, not by tags or source, not by a verdict, not in words.

    An agent that wants something sealed proposes it for PHOENIX. A human's claim passes, because what a human claims
    is still sealed by a signature and by nothing less. In words it knows set phrases, mostly English; it can't know
    whether a role is told truly, which is the door's work.
    """

    name: str = "F9_Authority"
    threshold: float = 0.5
    hard: bool = True

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # A floor's signature.
        """0 for claiming a band or a verdict, 0.1 for a tag or source, 0.2 for words."""
        if claim.is_human:
            return CLEAN
        if claim.is_overlong:
            return OVERLONG
        record = claim.record
        if record.band is Band.VAULT:
            return Finding(0.0, "authority: only a human may ask for VAULT; propose it for PHOENIX")
        if record.verdict is not None or record.evidence is not None:
            return Finding(0.0, "authority: it brings a verdict of its own")
        if not _SEALS.isdisjoint(record.tags):
            return Finding(0.1, "authority: a tag that only a human's seal gives")
        kind = record.source.get("kind") if isinstance(record.source, Mapping) else None
        if isinstance(kind, str) and kind.strip().lower() in _SEALS:
            return Finding(0.1, "authority: a source that only a human's seal gives")
        possible = _PHRASES.possible(claim.whole.vocabulary)
        said = spoken(claim.whole) if possible else ""
        for one in possible:
            if one.pattern.search(said):
                return Finding(0.2, f"authority: {one.kind}")
        return CLEAN
