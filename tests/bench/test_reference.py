"""On the reference release's frozen episodes, our figures equal those of the release."""

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from standfast.bench.entrants import Entrant
from standfast.bench.episodes import load_jsonl
from standfast.bench.runner import PricedEpisode
from standfast.policies.byte_model import ByteModel
from tests.bench.episodes import REFERENCE

VECTORS = Path(__file__).parents[1] / "vectors" / "write-policies.jsonl"
FIGURES: list[dict[str, Any]] = [
    json.loads(line) for line in VECTORS.read_text(encoding="ascii").splitlines()
]
NAMES = (
    "recall",
    "precision",
    "f1",
    "bytes_used",
    "utilization",
    "write_density",
    "avg_staleness",
    "drift_coverage",
)


def _mode(file: Path) -> str:
    return next(part.removeprefix("mode=") for part in file.stem.split("__") if part.startswith("mode="))


def _entrant(figure: dict[str, Any]) -> Entrant:
    shown_more = figure["track"] == "privileged" and not figure["policy"].startswith("priority")
    return Entrant.parse(figure["policy"] + ("@privileged" if shown_more else ""))


@pytest.mark.parametrize("file", REFERENCE, ids=_mode)
def test_figures_equal_those_of_the_reference_release(file: Path) -> None:
    scenes = [PricedEpisode(episode, ByteModel.INDEXED) for episode in load_jsonl(file)]
    wanted = [figure for figure in FIGURES if figure["mode"] == _mode(file)]
    differing = []
    for figure in sorted(wanted, key=lambda figure: figure["budget_bytes"]):
        entrant = _entrant(figure)
        runs = [scene.run(entrant, figure["budget_bytes"]).metrics for scene in scenes]
        own = {name: fmean(getattr(run, name) for run in runs) for name in NAMES}
        differing += [(figure, own) for name in NAMES if own[name] != figure[name]]

    assert len(wanted) == 48
    assert differing == []


def test_the_published_figures_are_among_them() -> None:
    """What the paper's text says of the privileged track in the default mode."""
    published = {
        (figure["policy"], figure["budget_bytes"]): figure
        for figure in FIGURES
        if figure["mode"] == "default" and figure["track"] == "privileged"
    }

    assert round(published["priority_greedy", 1_024]["f1"], 3) == 0.446
    assert round(published["priority_threshold", 10_240]["f1"], 3) == 1.0
    assert round(published["priority_threshold", 10_240]["utilization"], 3) == 0.337
    assert round(published["fifo_store_all", 10_240]["utilization"], 3) == 0.994
    assert round(published["fifo_store_all", 10_240]["drift_coverage"], 3) == 0.188
