"""From results to production: the settings that put a graded policy on a band."""

import json
import os
from pathlib import Path

import msgspec

from standfast.bench.entrants import Entrant
from standfast.bench.grid import PLAN, Grid, read_results
from standfast.bench.leaderboard import leaderboard_budget, select_rows, size_name
from standfast.errors import BadFile, InvalidValue, UnknownPolicy
from standfast.policies import BandBudget, PolicySpec, Track
from standfast.vocabulary import Band


def graded_budget(
    folder: str | os.PathLike[str], policy: str, *, band: Band, max_bytes: int | None = None
) -> BandBudget:
    """Return the budget that spends a band's bytes as the results in ``folder`` were made.

    It has the grid's byte model and, for a policy that uses random numbers, the grid's first seed. On the same stream of admitted
    observations it keeps what the benchmark keeps.

    Args:
        folder: The folder of a finished grid.
        policy: A policy of that grid, with its settings.
        band: The band that it should spend.
        max_bytes: A budget of that grid; by default the leaderboard's.

    Raises:
        UnknownPolicy: The grid does not have this policy, or it can't run in production.
        InvalidValue: The band can't have a budget.
        BadFile: The folder has no finished grid, or none with this budget.
    """
    plan = read_plan(folder)
    entrant = Entrant.parse(policy)
    if str(entrant) not in plan.policies:
        problem = f"it was not graded in {folder}; there are {', '.join(plan.policies)}"
        raise UnknownPolicy(policy=str(entrant), problem=problem)
    if entrant.track is not entrant.declared:
        problem = f"production shows hints only to policies that declare the privileged track; deploy {entrant.spec}"
        raise UnknownPolicy(policy=str(entrant), problem=problem)
    if entrant.track not in (Track.UNPRIVILEGED, Track.PRIVILEGED):
        needs = "utilities after each step" if entrant.track is Track.BANDIT else "to know the future"
        problem = f"it needs {needs}, which production does not have; choose a policy of another track"
        raise UnknownPolicy(policy=str(entrant), problem=problem)
    rows = read_results(folder)
    return BandBudget(
        band=band,
        max_bytes=leaderboard_budget(rows, max_bytes),
        policy=str(_with_seed(entrant.spec, plan.seeds[0])),
        byte_model=plan.byte_model,
    )


def deployment_settings(
    folder: str | os.PathLike[str], policy: str, *, band: str, max_bytes: int | None = None
) -> str:
    """Return the lines of ``standfast.toml`` that put a policy of the results on a band."""
    budget = graded_budget(folder, policy, band=Band(band), max_bytes=max_bytes)
    plan = read_plan(folder)
    entrant = Entrant.parse(policy)
    rows = select_rows(
        read_results(folder),
        policy=str(entrant.spec),
        track=str(entrant.track),
        budget_bytes=budget.max_bytes,
        seed=plan.seeds[0],
    )
    tables = {
        "band_policies": json.dumps(budget.policy, ensure_ascii=False),
        "band_budgets_bytes": str(budget.max_bytes),
        "band_byte_models": json.dumps(str(budget.byte_model)),
    }
    graded = f"# Graded on {len(rows)} episodes at {size_name(budget.max_bytes)}, code {plan.code}.\n"
    return graded + "\n".join(f"[{name}]\n{budget.band.value} = {value}\n" for name, value in tables.items())


def read_plan(folder: str | os.PathLike[str]) -> Grid:
    """Return the grid whose results are in a folder."""
    file = Path(folder) / PLAN
    try:
        return msgspec.json.decode(file.read_bytes(), type=Grid)
    except OSError as error:
        raise BadFile(file=str(file), problem=f"{error.strerror}; run 'standfast bench run' first") from None
    except (msgspec.MsgspecError, InvalidValue) as error:
        raise BadFile(file=str(file), problem=f"it is not the plan of a grid: {error}") from None


def _with_seed(spec: PolicySpec, seed: int) -> PolicySpec:
    """Return the policy with the seed among its settings, if it takes one and has none."""
    if "seed" in dict(spec.settings) or not spec.takes_seed:
        return spec
    return PolicySpec(spec.name, tuple(sorted((*spec.settings, ("seed", seed)))))
