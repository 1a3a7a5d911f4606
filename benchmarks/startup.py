"""Start-up time of ``import standfast`` and ``standfast --help``, compared with a bare interpreter."""

import subprocess
import sys
import time

from benchmarks.measure import Ratio, at_most

TITLE = "Start-up"
PROGRAMS = {
    "bare": ["-c", "pass"],
    "import standfast": ["-c", "import standfast"],
    "import and use the vocabulary": ["-c", "from standfast import Record; Record(memory_id='m', text='t')"],
    "standfast --help": ["-c", "from standfast.cli import main; main(['--help'])"],
}
BOUNDS_MILLISECONDS = {
    "import standfast": 60.0,
    "import and use the vocabulary": 100.0,
    "standfast --help": 150.0,
}
ROUNDS = 20


def run() -> list[Ratio]:
    """Milliseconds above a bare interpreter: the best of many interleaved starts."""
    best = dict.fromkeys(PROGRAMS, float("inf"))
    for _ in range(ROUNDS):
        for name, arguments in PROGRAMS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
            best[name] = min(best[name], time.perf_counter() - start)
    detail = f"bare interpreter {best['bare'] * 1e3:.0f} ms"
    return [
        at_most(name, (best[name] - best["bare"]) * 1e3, bound, detail, unit=" ms")
        for name, bound in BOUNDS_MILLISECONDS.items()
    ]
