"""The page that explains every word of the console. A test holds it to the words that the pages use."""

from dataclasses import dataclass
from typing import Final

from standfast.records.vocabulary import Band, Verdict
from standfast.server.access.permissions import KeyRole, Permission
from standfast.server.console.rendering import FLOOR_LABELS, Page, PageRequest


@dataclass(frozen=True, slots=True)
class Term:
    """A word, what it means, and the words for it in data and in the API."""

    word: str
    meaning: str
    data: str = ""


_VERDICTS: Final = {
    Verdict.SEAL: "The text passed every check. It is stored and recalled.",
    Verdict.SABAR: "It is stored and recalled, and a reason to be careful is noted with it.",
    Verdict.PARTIAL: "A soft check failed. It waits as a proposal; what was accepted before stays current.",
    Verdict.HOLD: "Somebody asked to stop here. It waits as a proposal.",
    Verdict.VOID: (
        "A hard check failed. It is kept for diagnosis, without secrets, for 90 days, and never recalled."
    ),
}
_BANDS: Final = {
    Band.VAULT: "What a person made binding by a signature. It never expires.",
    Band.LEDGER: "What was accepted. Recall reads it and law.",
    Band.ACTIVE: "A copy of what was accepted lately, deleted after 7 days.",
    Band.PHOENIX: "Proposals that need a decision.",
    Band.WITNESS: "Who else said it, and notes about attacks.",
    Band.VOID: "What the judge refused.",
}
_FLOORS: Final = {
    "F1_Amanah": "What is meant as law names its source. Soft.",
    "F2_Truth": "It does not contradict law of the same subject. Hard.",
    "F3_Witness": "A source other than the agent supports what is meant as law. Soft.",
    "F4_Clarity": "It is text, and all of it is visible. Hard.",
    "F5_Secrecy": "It holds no secrets and no personal data. Hard.",
    "F6_Injection": "It states a fact and gives no orders to the reader. Hard.",
    "F7_Humility": "It is no more certain than its sources. Soft.",
    "F8_Novelty": "It is short enough and was not rejected before. Hard.",
    "F9_Authority": "It does not claim to be law. Hard.",
}
_ROLES: Final = {
    KeyRole.AGENT: "A key that reads its namespaces, and remembers, proposes and forgets there.",
    KeyRole.OPERATOR: (
        "A key that may do everything in its namespaces, and submits signatures. It seals nothing by itself."
    ),
    KeyRole.AUDITOR: "A key that reads everything in its namespaces and changes nothing.",
}
assert set(_VERDICTS) == set(Verdict)
assert set(_BANDS) == set(Band)
assert set(_ROLES) == set(KeyRole)
assert set(_FLOORS) <= set(FLOOR_LABELS)

SECTIONS: Final = {
    "Verdicts: what the judge decided": tuple(
        Term(verdict.label, meaning, verdict.value) for verdict, meaning in _VERDICTS.items()
    ),
    "Bands: the parts of memory": (
        *(Term(band.label, meaning, band.value) for band, meaning in _BANDS.items()),
        Term("band", "A part of memory. A record can be in two: in working memory and in long-term memory."),
        Term(
            "tier",
            "How long a band keeps its records: hot (7 days), warm (90), cold (for ever), rejected (90).",
        ),
        Term(
            "budget",
            "The most bytes that a band may hold. Its write policy decides what to keep when they run out.",
        ),
        Term("bytes", "The size of what is stored. 1 KiB is 1,024 bytes."),
    ),
    "The nine floors: the checks of the judge": (
        *(Term(FLOOR_LABELS[name], meaning, name) for name, meaning in _FLOORS.items()),
        Term(
            "check",
            "A floor, or a note in the evidence that binds it to the content or to a person's decision.",
        ),
        Term("hard", "A hard floor that fails rejects the text. A soft one asks for a review."),
        Term(
            "score",
            "How well a text passed a check, from 0 to 1. In recall: how well a record answers the question.",
        ),
        Term("threshold", "The score below which a check fails."),
        Term("result", "Whether a check passed; in a trace, the fingerprint of what a call returned."),
        Term("evidence", "The record of all checks of one text, bound to it by a hash."),
        Term("reason", "Why the judge decided so, or why a person added, corrected or forgot something."),
        Term("judged", "When the checks were made."),
    ),
    "Memory": (
        Term("memory", "One remembered text that holds: law, or accepted. It counts once."),
        Term("remembered", "Accepted by the judge and stored."),
        Term("record", "One stored text with its subject, source, tags and evidence."),
        Term("user", "Somebody whose memory is in a scope of their own, such as user/ada."),
        Term("id", "The name of a record that has no subject; with one, the subject is its id."),
        Term("fact", "A record that is no message of a conversation."),
        Term("subject", "What a record is about. It has one current text in its scope, and a history."),
        Term("supersede", "A later text of a subject supersedes the one before, which stays in the history."),
        Term("scope", "A place inside a namespace, such as user/ada. What is below it belongs to it."),
        Term("namespace", "A tenant. Namespaces never share anything."),
        Term("session", "One conversation. Its records are messages."),
        Term("message", "A turn of a conversation, with its speaker and its position."),
        Term("speaker", "Who said a message."),
        Term("source", "Where a text comes from, as kind:id, for example doc:handbook."),
        Term("origin", "How far a source is trusted: trusted, ordinary or untrusted."),
        Term("trusted", "Said by an operator or a user."),
        Term("ordinary", "Said by an agent, or by a document."),
        Term(
            "untrusted",
            "From a tool, the web or an unknown source. It replaces nothing and is recalled only where its"
            " scope is named.",
        ),
        Term("tag", "A word to find and filter records by."),
        Term("metadata", "The caller's own fields of a record."),
        Term("reference", "What a record points to."),
        Term("valid", "From when and until when a fact holds."),
        Term("time", "When something was said or done: in your own time, with UTC as a tooltip."),
        Term(
            "kind",
            "What sort of thing it is: a record, fact, message or proposal; a user or another scope; an"
            " entry.",
        ),
        Term(
            "forget",
            "Erase every version of a record or of a scope, for good. The ledger keeps hashes and the"
            " reason.",
        ),
        Term("rehearsal", "What forgetting would erase, without erasing it."),
        Term("export", "Everything of a scope as a file of JSON lines."),
    ),
    "Recall": (
        Term(
            "recall",
            "What an agent is given for a question. In benchmarks: the share of what was needed that was"
            " kept.",
            "recall",
        ),
        Term("tokens", "Pieces of words, as models count text. A recall has a budget of them."),
        Term("package", "What a recall returns, with a hash that names its bytes."),
        Term(
            "trust at most",
            "The ceiling of a record's trust: old or unreviewed records are trusted less, none above 0.85.",
        ),
    ),
    "Decisions": (
        Term("proposal", "A text that waits for a person's decision."),
        Term("approve", "Make a proposal law, by a signature."),
        Term("accept", "Take a proposal as ordinary memory, by a signature."),
        Term("reject", "Refuse a proposal, by a signature. Its content is erased."),
        Term(
            "signature",
            "Made with a person's SSH key over the exact text that the page shows. Nothing else decides.",
        ),
        Term("decided", "When a signature decided the proposal."),
        Term("decision", "Approve, accept or reject."),
        Term("signed by", "Whose signature it is, by the list of allowed signers."),
        Term("payload fingerprint", "The hash of exactly what would be decided."),
    ),
    "Snapshots and the ledger": (
        Term("snapshot", "The state of memory after a commit, by number. Every one stays readable."),
        Term("commit", "One change of memory, made at once or not at all. It makes the next snapshot."),
        Term("committed", "When the change was made."),
        Term("ledger", "The hash chain of everything that was committed, decided and refused."),
        Term("entry", "One link of the ledger. Each holds the hash of the previous entry."),
        Term("previous entry", "The hash of the entry before, which chains them."),
        Term("receipt", "The proof that an entry is in the ledger."),
        Term("proof", "Hashes by which anybody can compute that the leaf is in the signed tree."),
        Term("leaf", "An entry as a part of the tree that checkpoints sign."),
        Term("checkpoint", "A signed statement of how far the ledger goes."),
        Term("fingerprint", "The SHA-256 of the exact bytes.", "sha256"),
        Term("hash", "A fingerprint; that of an entry, evidence, artifact or shape covers all of it."),
        Term("summary", "An entry in a few words."),
        Term("activity", "Commits, proposals and refusals, as they happen."),
        Term(
            "refused", "A call that the server did not allow: a wrong key, or a key without the permission."
        ),
    ),
    "Runs": (
        Term("run", "One task of an agent, named by its workflow. It reads one snapshot and commits once."),
        Term("mode", "What a run may do: off, read_only, buffered_write or live_read_write."),
        Term("trace", "The record of what a run read, called, decided and wrote."),
        Term("artifact", "The file of a trace, named by its hash."),
        Term("events", "The steps of a run, in order."),
        Term("ended", "When the run was over."),
        Term("left", "The first of two runs that are compared; the other is right."),
        Term("right", "The second of two runs that are compared."),
        Term("model", "The model that the agent ran with, if it said so."),
        Term("policy set", "The id of all floors, policies and settings that judged."),
        Term("query", "The question of a read, as a fingerprint."),
        Term("effect", "The fingerprint of what a call changed."),
        Term("type", "What the run's output is."),
        Term("shape", "The form of the output: its fields and their types, without values."),
    ),
    "Keys": (
        *(Term(role.value, meaning) for role, meaning in _ROLES.items()),
        Term(
            "key",
            "What a program or person signs in with. It is shown once; only its hash is stored. On a"
            " decision: the signer's SSH key.",
        ),
        Term("role", "What a key may do. In a trace: who made the step."),
        Term("name", "Who holds the key."),
        Term("id of a key", "Its public part, below its name."),
        Term("created", "When the key was made."),
        Term("revoke", "End a key, at once and for good, with all its sessions."),
    ),
    "Benchmarks and prompts": (
        Term("#", "The place of a policy: a range where the results can't tell policies apart."),
        Term(
            "policy",
            "What decides which records to keep when a byte budget runs out; in a trace, how records were"
            " selected.",
        ),
        Term("track", "What a policy may see: unprivileged, privileged, bandit or oracle."),
        Term("F1", "The harmonic mean of precision and recall."),
        Term("utility per KiB", "The worth of what was kept, for each 1,024 bytes that it takes."),
        Term("staleness", "How old the kept records are on average, in steps."),
        Term("regret", "The utility that the exact optimum has and the policy has not."),
        Term("share of optimum", "The kept utility as a share of the optimum's."),
        Term(
            "95 % interval",
            "Where the mean over other episodes of this kind would be expected, in 95 of 100 cases.",
        ),
        Term("prompt", "A text for a model, in sections."),
        Term("section", "A part of a prompt."),
        Term("override", "An optimised version of a section, used instead of the source."),
        Term("strategy", "How a shorter text was found."),
        Term("fewer tokens", "By how much a section became shorter."),
        Term("pass rate", "The share of samples that a prompt answers correctly."),
        Term("detail", "What the proof found against a change."),
    ),
}


def words(request: PageRequest) -> Page:
    """Every word of the console, by subject."""
    request.memory(Permission.STATUS)
    return Page(template="words.html", context={"sections": SECTIONS})
