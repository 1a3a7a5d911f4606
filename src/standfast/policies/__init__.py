"""Write policies: what to keep when bytes run out. The same objects run in production and in the benchmark."""

from standfast.policies.band_budget import BandBudget, BudgetedBand

__all__ = ["BandBudget", "BudgetedBand"]
