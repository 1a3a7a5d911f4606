"""The ``standfast`` command line. Each command parses its arguments, calls one method and prints the answer.

A command's module is imported only when the command is called; the summaries stand here so that help needs
none of them. The packages outside the core bring their commands as ``standfast.extensions`` says.
"""

from typing import Final

import click

from standfast.cli.output import RootGroup
from standfast.extensions import Command

HEADINGS: Final = ("Memory", "Governance", "Store", "Server", "Evaluation", "More")
# The module and the summary of each command, by heading.
_COMMANDS: Final = {
    "Memory": {
        "remember": ("memory", "Judge a text and store it if it is accepted."),
        "recall": ("recall", "Print what memory knows about a question, within a token budget."),
        "forget": ("memory", "Erase a subject from memory."),
        "add": ("memory", "Add the messages of a conversation."),
        "extract": ("memory", "Find facts in the conversations that wait for the model."),
        "session": ("memory", "Print a conversation."),
        "sessions": ("memory", "List conversations."),
        "history": ("memory", "List every version of a subject, with verdict and evidence."),
        "diff": ("memory", "Show what changed between two snapshots."),
        "at": ("memory", "List the records of a snapshot."),
        "profile": ("current", "Print what memory knows about the owner of a scope now."),
        "conflicts": ("current", "List what disagrees, and settle it."),
        "read": ("recall", "Run memory.read over JSONL files or a store."),
    },
    "Governance": {
        "judge": ("governance", "Say what would happen to a text and why, without storing it."),
        "approvals": ("governance", "List, approve and reject proposals."),
        "patterns": ("governance", "List and lift patterns of attacks."),
        "refusals": ("governance", "List and lift what is remembered as rejected."),
        "investigate": ("incidents", "Find the cause and the reach of a wrong answer."),
        "quarantine": ("incidents", "Take records out of recall, with what cites them."),
        "release": ("incidents", "Take a quarantine or a revert back."),
        "revert": ("incidents", "Undo what a run wrote."),
        "retention": ("store", "Archive and delete what is past its retention period."),
        "verify": ("verify", "Verify storage, ledger, checkpoints, evidence and signatures."),
        "receipt": ("verify", "Print a proof that an entry is in the ledger."),
    },
    "Store": {
        "init": ("store", "Create a store, settings and keys in this folder."),
        "backup": ("store", "Copy a store and verify the copy."),
        "restore": ("store", "Put a backup back, and begin a new branch there."),
        "vectors": ("store", "Count, fill in and migrate the vectors of hybrid-v1."),
        "doctor": ("verify", "Check a store for damage."),
        "index": ("store", "Show, rebuild and verify the index that recall reads."),
        "witness": ("witness", "Cosign the checkpoints of other stores."),
        "recover": ("store", "Finish or abort what crashed processes left."),
    },
    "Evaluation": {
        "trace": ("trace", "Show, validate, compare and replay recorded runs."),
    },
    "More": {
        "demo": ("demo", "Run a short tour."),
        "hook": ("hook", "Answer the hook of a coding agent."),
        "canon": ("verify", "Print the canonical form of a JSON text and its fingerprint."),
    },
}
COMMANDS: Final = {
    name: Command(heading, summary, f"standfast.cli.{module}:{name}_command")
    for heading, commands in _COMMANDS.items()
    for name, (module, summary) in commands.items()
}


@click.group(
    cls=RootGroup,
    own=COMMANDS,
    headings=HEADINGS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
    epilog=(
        "Exit codes: 0 done; 1 the answer is no; 2 wrong arguments, input, settings or store; 130"
        ' interrupted. Shell completion: eval "$(_STANDFAST_COMPLETE=bash_source standfast)", or zsh_source,'
        " fish_source."
    ),
)
@click.version_option(package_name="standfast", message="standfast %(version)s")
def main() -> None:
    """Governed memory for AI agents: every write is judged, every read is reproducible."""
