"""From the leaderboard to production: the settings that put a policy on a band."""

import json

from standfast.errors import UnknownPolicy
from standfast.policies.protocol import Track
from standfast.policies.registry import PolicySpec
from standfast.vocabulary import Band


def settings_lines(policy: str, *, band: str, max_bytes: int | None = None) -> str:
    """The lines for ``standfast.toml``. A policy that sees what production can't show is refused."""
    spec = PolicySpec.parse(policy)
    if spec.track is Track.ORACLE:
        problem = "it is told the future, which production can't tell; deploy one of another track"
        raise UnknownPolicy(policy=str(spec), problem=problem)
    lines = [f"[band_policies]\n{Band(band).value} = {json.dumps(str(spec), ensure_ascii=False)}\n"]
    if max_bytes is not None:
        lines.append(f"\n[band_budgets_bytes]\n{Band(band).value} = {max_bytes}\n")
    return "".join(lines)
