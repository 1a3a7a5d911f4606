"""How little of memory is enough: rival recall budgets for each memory section, of which the smallest that passes wins."""

from collections.abc import Sequence

from standfast.optimize.loops.strategies.proposals import SectionEdit, StrategySession, edit_of
from standfast.optimize.prompts.template import PromptDescriptor
from standfast.optimize.providers.adapter import ProviderAdapter


class RecallBudget:
    """Proposes smaller budgets for what memory hands back, as shares of the present one."""

    def __init__(self, *shares: float) -> None:
        self._shares = shares or (0.125, 0.25, 0.5, 0.75)
        assert all(0 < share < 1 for share in self._shares), "shares are between 0 and 1"

    def propose(
        self,
        prompt: PromptDescriptor,
        *,
        adapter: ProviderAdapter | None,  # noqa: ARG002  # It needs no model.
        session: StrategySession,
    ) -> Sequence[SectionEdit]:
        """A rival for each share, of each memory section."""
        edits = []
        for section in prompt.sections:
            if section.recall_tokens is None:
                continue
            budgets = sorted({max(int(section.recall_tokens * share), 1) for share in self._shares})
            edits += [
                edit_of(
                    section, section.body, session=session, strategy="recall-budget", recall_tokens=budget
                )
                for budget in budgets
                if budget < section.recall_tokens
            ]
        return edits
