"""A full disk at every write of ``standfast remember``: an error message, and no acknowledged record is
lost.
"""

from itertools import count
from pathlib import Path

from click.testing import CliRunner, Result

from standfast.cli import main
from tests.figures import Figures
from tests.store.conftest import ram_folder
from tests.store.faulty_disk import Fault, Faults
from tests.store.recording_vfs import in_child

__all__ = ["ram_folder"]

ENOUGH_OPERATIONS = 1_000


def _call(store: str, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--store", store])


def _remember(store: str, number: int) -> Result:
    fact = f"Gate number {number} opens at noon."
    return _call(store, "remember", fact, "--subject", f"gate/{number}", "--source", "doc:plan")


def _fill_at_every_moment(folder: Path) -> dict[str, int]:
    """Fill the disk from the first write on, then from the second, … until a call succeeds without hitting
    the fault.
    """
    faults, store, acknowledged, refused = Faults(), str(folder / "store.db"), [0], 0
    assert _remember(store, 0).exit_code == 0
    for number in count(1):
        faults.arm(Fault("write", number, ENOUGH_OPERATIONS))
        result = _remember(store, number)
        faults.is_well = True
        assert result.exit_code in (0, 2), f"write {number}: {result.exception!r} {result.output}"
        assert "Traceback" not in result.output
        if result.exit_code == 0:
            acknowledged.append(number)
        else:
            refused += 1
            assert result.stderr.startswith("Error: "), result.stderr
        if not faults.struck:
            break
    verified = _call(store, "verify")
    assert verified.exit_code == 0, verified.output
    for number in acknowledged:
        assert f"Gate number {number} opens" in _call(store, "history", f"gate/{number}").output
    return {"moments": number, "refused": refused, "acknowledged": len(acknowledged)}


def test_a_full_disk_is_reported_and_loses_no_acknowledged_record(ram_folder: Path, figures: Figures) -> None:
    found = in_child(_fill_at_every_moment, ram_folder, folder=ram_folder)
    figures("full disk", found)

    assert found["refused"] > 0
    assert found["acknowledged"] > 1
