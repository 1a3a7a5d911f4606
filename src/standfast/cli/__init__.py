"""The ``standfast`` command line. Each command parses its arguments, calls one method and prints the answer.

A command's module is imported only when the command is called; the summaries stand here so that help needs
none of them.
"""

from typing import Final

import click

from standfast.cli.output import RootGroup

SECTIONS: Final = {
    "Memory": {
        "remember": "Judge a text and store it if it is accepted.",
        "recall": "Print what memory knows about a question, within a token budget.",
        "forget": "Erase a subject from memory.",
        "add": "Add the messages of a conversation.",
        "session": "Print a conversation.",
        "sessions": "List conversations.",
        "history": "List every version of a subject, with verdict and evidence.",
        "diff": "Show what changed between two snapshots.",
        "at": "List the records of a snapshot.",
        "read": "Run memory.read over JSONL files or a store.",
    },
    "Governance": {
        "judge": "Say what would happen to a text and why, without storing it.",
        "approvals": "List, approve and reject proposals.",
        "patterns": "List and lift patterns of attacks.",
        "retention": "Archive and delete what is past its retention period.",
        "verify": "Verify storage, ledger, checkpoints, evidence and signatures.",
        "receipt": "Print a proof that an entry is in the ledger.",
    },
    "Store": {
        "init": "Create a store, settings and keys in this folder.",
        "backup": "Copy a store and verify the copy.",
        "restore": "Put a backup back, and begin a new branch there.",
        "export": "Write accepted memory as JSON lines, for mem0 or LangGraph, or as a note.",
        "import": "Judge and remember what a file of another system holds.",
        "vectors": "Count, fill in and migrate the vectors of hybrid-v1.",
        "doctor": "Check a store for damage.",
        "index": "Show, rebuild and verify the index that recall reads.",
        "recover": "Finish or abort what crashed processes left.",
    },
    "Server": {
        "serve": "Serve the HTTP API, the console and MCP.",
        "mcp": "Serve one MCP client over standard input and output.",
        "keys": "Create, list and revoke API keys.",
    },
    "Evaluation": {
        "trace": "Show, validate, compare and replay recorded runs.",
        "bench": "Benchmark write policies under byte budgets.",
        "eval": "Measure how much of the evidence recall finds.",
        "optimize": "Shorten a prompt, prove that it is no worse, apply it.",
    },
    "More": {
        "demo": "Run a short tour.",
        "canon": "Print the canonical form of a JSON text and its fingerprint.",
    },
}
_MODULES: Final = {
    "memory": ("remember", "forget", "history", "diff", "at", "add", "session", "sessions"),
    "recall": ("recall", "read", "eval"),
    "governance": ("judge", "approvals", "patterns"),
    "verify": ("verify", "receipt", "doctor", "canon"),
    "store": (
        *("init", "backup", "restore", "recover", "retention"),
        *("export", "import", "index", "vectors"),
    ),
    "server": ("serve", "mcp", "keys"),
    "trace": ("trace",),
    "bench": ("bench",),
    "optimize": ("optimize",),
    "demo": ("demo",),
}
# In a module with one command, that is `command`; in one with several, each is `<name>_command`.
COMMANDS: Final = {
    name: f"standfast.cli.{module}:{'command' if len(names) == 1 else f'{name}_command'}"
    for module, names in _MODULES.items()
    for name in names
}
assert set(COMMANDS) == {name for section in SECTIONS.values() for name in section}


@click.group(
    cls=RootGroup,
    commands_at=COMMANDS,
    sections=SECTIONS,
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
