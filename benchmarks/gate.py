"""How often the gate accepts a prompt, against what the prompt really loses: choosing and confirming,
simulated.

The simulation drives the very functions that decide in production. Whole optimizations follow, with a
scripted agent that loses what the scenario says when one sentence of its prompt is removed. Everything is
seeded.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.measure import Ratio, at_least, at_most, shown
from standfast.optimize import ModelRequest, Sample, ScriptedProvider, optimize
from standfast.optimize.loops.gate import GateSettings, Looks, MoreRuns, Ruling, decide

TITLE = "The gate: how often a prompt is accepted, against its true loss"
SAMPLES = 100
TRIALS = 250
WHOLE_RUNS = 25
LEVEL = GateSettings().level

Rates = tuple[float, float]
"""The probability that a run passes, with the baseline and with the candidate."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A kind of loss; ``rates`` draws a sample's probabilities for a loss of this share."""

    name: str
    rates: Callable[[random.Random, float], Rates]


def _concentrated(chance: random.Random, loss: float) -> Rates:
    return 1.0, 0.0 if chance.random() < loss else 1.0


def _clustered(chance: random.Random, loss: float) -> Rates:
    return 1.0, 0.5 if chance.random() < 2 * loss else 1.0


def _thin(_chance: random.Random, loss: float) -> Rates:
    return 1.0, 1.0 - loss


def _flaky(_chance: random.Random, loss: float) -> Rates:
    return 0.8, 0.8 * (1 - loss)


def _flaky_concentrated(chance: random.Random, loss: float) -> Rates:
    return 0.8, 0.0 if chance.random() < loss else 0.8


def _mixed(chance: random.Random, loss: float) -> Rates:
    base = 1.0 if chance.random() < 0.7 else chance.random()
    return base, base * (1 - loss)


def churning(share: float) -> Scenario:
    """Return a model at temperature 0 that passes 80 % of the samples.

    Any change of the prompt changes this share of outcomes, half of them gains. A true loss comes on top.
    """

    def rates(chance: random.Random, loss: float) -> Rates:
        if chance.random() < _CHURNING_BASE:
            return 1.0, float(chance.random() >= loss + share / 2 / _CHURNING_BASE)
        return 0.0, float(chance.random() < share / 2 / (1 - _CHURNING_BASE))

    return Scenario(f"temperature 0, churn {share:.0%}", rates)


_CHURNING_BASE = 0.8
CHURNS = (0.02, 0.05, 0.08)
SCENARIOS = (
    Scenario("concentrated: some samples always fail", _concentrated),
    Scenario("clustered: some samples fail half of their runs", _clustered),
    Scenario("spread thin: every sample fails sometimes", _thin),
    Scenario("flaky baseline (80 %), spread thin", _flaky),
    Scenario("flaky baseline (80 %), concentrated", _flaky_concentrated),
    Scenario("mixed baseline (85 %), spread thin", _mixed),
)


class SimulatedRuns:
    """Runs that are drawn when they are asked for."""

    def __init__(self, chance: random.Random, rates: dict[str, Rates]) -> None:
        self._chance, self._rates = chance, rates
        self.baseline: dict[str, tuple[bool, ...]] = dict.fromkeys(rates, ())
        self.candidate: dict[str, tuple[bool, ...]] = dict.fromkeys(rates, ())

    @property
    def calls(self) -> int:
        """How many runs were drawn."""
        return sum(map(len, (*self.baseline.values(), *self.candidate.values())))

    def decided(self, samples: list[str], settings: GateSettings, looks: Looks) -> Ruling:
        """Draw runs until the gate decides."""
        while True:
            answer = decide(self.baseline, self.candidate, samples=samples, settings=settings, looks=looks)
            if isinstance(answer, Ruling):
                return answer
            self._draw(answer)

    def _draw(self, wanted: MoreRuns) -> None:
        for sample in wanted.samples:
            for runs, rate in zip((self.baseline, self.candidate), self._rates[sample], strict=True):
                while len(runs[sample]) < wanted.repeats:
                    runs[sample] += (self._chance.random() < rate,)


def simulate(
    scenario: Scenario,
    loss: float,
    *,
    samples: int = SAMPLES,
    trials: int = TRIALS,
    settings: GateSettings | None = None,
    choosing: bool = True,
    use: int = 1,
) -> tuple[float, float]:
    """Return the share of trials in which a prompt with this loss is accepted, and the runs that a trial
    took.
    """
    gate = settings or GateSettings()
    accepted = calls = 0
    for trial in range(trials):
        chance = random.Random(f"{scenario.name}/{loss}/{samples}/{trial}")
        rates = {f"s{number}": scenario.rates(chance, loss) for number in range(samples)}
        runs, names = SimulatedRuns(chance, rates), list(rates)
        held_out = round(gate.held_out_share * samples)
        confirm, choose = names[:held_out], names[held_out:]
        chosen = not choosing or runs.decided(choose, gate, gate.choosing(varies=True)).passed
        accepted += chosen and runs.decided(confirm, gate, gate.confirming(use, varies=True)).passed
        calls += runs.calls
    return accepted / trials, calls / trials


def simulate_reuse(loss: float, *, prompts: int = 5, trials: int = TRIALS) -> float:
    """Return the share of trials in which any of several bad prompts is accepted on the same held-out
    samples.
    """
    gate = GateSettings()
    accepted = 0
    for trial in range(trials):
        chance = random.Random(f"reuse/{loss}/{trial}")
        names = [f"s{number}" for number in range(round(gate.held_out_share * SAMPLES))]
        passed = False
        for use in range(1, prompts + 1):
            runs = SimulatedRuns(chance, {name: _thin(chance, loss) for name in names})
            passed |= runs.decided(names, gate, gate.confirming(use, varies=True)).passed
        accepted += passed
    return accepted / trials


PROMPT = "You are a calculator.\n\nYou like the sea.\n\nAdd ${a} and ${b}."
_NUMBER = re.compile(r"Add (\d+) and")


def whole_run(scenario: Scenario, loss: float, seed: int, *, samples: int = SAMPLES) -> tuple[bool, int]:
    """Optimize a prompt whose second sentence is worth this much; return whether it was removed, and the
    evaluations.
    """
    chance = random.Random(f"whole/{scenario.name}/{loss}/{seed}")
    rates = [scenario.rates(chance, loss) for _ in range(samples)]

    def answer(request: ModelRequest) -> str:
        found = _NUMBER.search(request.prompt)
        assert found is not None
        number, is_baseline = int(found[1]), "sea" in request.prompt
        rate = rates[number][0 if is_baseline else 1] if "calculator" in request.prompt else 0.0
        draw = random.Random(f"{seed}/{number}/{is_baseline}/{request.repeat}").random()
        return str(number + 1) if draw < rate else "?"

    report = optimize(
        PROMPT,
        [
            Sample(id=f"s{number}", input={"a": number, "b": 1}, expected=str(number + 1))
            for number in range(samples)
        ],
        ScriptedProvider(answer),
        strategies=["ablation"],
        gate=GateSettings(remove_untested=True),
    )
    return report.has_modifications, report.evaluations


def whole_runs(
    scenario: Scenario, loss: float, *, runs: int = WHOLE_RUNS, samples: int = SAMPLES
) -> tuple[float, float]:
    """Return the share of whole optimizations that accept the removal, and their evaluations on average."""
    results = [whole_run(scenario, loss, seed, samples=samples) for seed in range(runs)]
    return sum(accepted for accepted, _ in results) / runs, sum(count for _, count in results) / runs


LOSSES = (0.0, 0.02, 0.05, 0.1, 0.2)


def run() -> list[Ratio]:
    """Simulate every scenario at every loss."""
    ratios = []
    for scenario in SCENARIOS:
        for loss in LOSSES:
            share, calls = simulate(scenario, loss)
            name, detail = f"{scenario.name}, true loss {loss:.0%}", f"{calls:.0f} runs on average"
            if loss == 0:
                ratios.append(at_least(name, share, 0.8, detail))
            elif loss >= GateSettings().margin:
                ratios.append(at_most(name, share, LEVEL, detail, unit=""))
            else:
                ratios.append(shown(name, share, detail))
    reused = simulate_reuse(GateSettings().margin)
    name = "any of five prompts that lose the margin, all tested on the same held-out samples"
    ratios.append(at_most(name, reused, LEVEL, unit=""))
    for scenario in SCENARIOS:
        for loss in (0.0, GateSettings().margin):
            share, calls = whole_runs(scenario, loss)
            name = f"whole optimizations, {scenario.name}, true loss {loss:.0%}"
            detail = f"{calls:.0f} evaluations on average"
            ratios.append(
                at_most(name, share, LEVEL, detail, unit="") if loss else at_least(name, share, 0.8, detail)
            )
    return ratios + _churn_ratios()


def _churn_ratios() -> list[Ratio]:
    """Whole optimizations of a model at temperature 0, with 100 and 400 samples."""
    ratios = []
    for churn in CHURNS:
        for samples in (SAMPLES, 4 * SAMPLES):
            for loss in (0.0, GateSettings().margin):
                share, calls = whole_runs(churning(churn), loss, samples=samples)
                name = f"whole optimizations, churn {churn:.0%}, {samples} samples, true loss {loss:.0%}"
                detail = f"{calls:.0f} evaluations on average"
                if loss:
                    ratios.append(at_most(name, share, LEVEL, detail, unit=""))
                elif samples > SAMPLES and churn <= CHURNS[1]:
                    ratios.append(at_least(name, share, 0.9, detail))
                else:
                    ratios.append(shown(name, share, detail))
    return ratios
