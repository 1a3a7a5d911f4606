"""Changes of prompts in the ledger: proposed before they are made, settled after, like any other change that is answered for."""

from typing import Final

from standfast.optimize.loops.trials.apply import PromptChange
from standfast.store.commit import Fact
from standfast.store.store import Store

PROPOSED: Final = "prompt_change"
SETTLED: Final = "prompt_settled"


class LedgerSealer:
    """Tells a store's ledger of prompt changes. A proposal that no entry settles tells of a crash in between."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def propose(self, change: PromptChange) -> str:
        """Enter what is about to be done; gives the entry's number and hash, which the override then carries."""
        entry = self._store.append_fact(Fact.of(PROPOSED, change.as_json()))
        return f"{entry.seq}-{entry.hash[:32]}"

    def settle(self, seal_id: str, *, applied: bool) -> None:
        """Enter whether it was done."""
        self._store.append_fact(Fact.of(SETTLED, {"applied": applied, "seal_id": seal_id}))
