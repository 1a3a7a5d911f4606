"""The simulation of ``benchmarks/incidents.py``, in a small form."""

from pathlib import Path

from benchmarks.incidents import outcome_of, simulate


def test_every_certain_descendant_is_found_hidden_and_released(tmp_path: Path) -> None:
    found = outcome_of(simulate(tmp_path, runs=120, agents=6), tmp_path)

    assert found.truth > 10
    assert (found.missed, found.wrongly_certain) == (0, 0)
    assert (found.shown_after, found.changed_beside, found.unlike_twin, found.not_restored) == (0, 0, 0, 0)
    assert 0 < found.possible_right <= found.possible
