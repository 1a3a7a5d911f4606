"""A person grades recorded answers, and they become a dataset."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from httpx2 import Response

from standfast.cli import main
from standfast.optimize import GradeBook, read_dataset
from standfast.optimize.evals.exchanges import Grade, exchanges_of
from tests.server.console.conftest import BrowserClient, browser_client, words_of
from tests.server.console.sample_server import SECRET, SampleServer, sample_server

ANSWER = "Parcels leave at noon."


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SampleServer]:
    """A server that a test may change."""
    with sample_server(tmp_path) as built:
        yield built


@pytest.fixture
def client(server: SampleServer) -> Iterator[BrowserClient]:
    """An operator, signed in."""
    with browser_client(server, server.operator) as signed_in:
        yield signed_in


def _run(server: SampleServer) -> str:
    traces = server.gateway.home.traces
    assert traces is not None
    [exchange] = exchanges_of(trace for _, trace in traces.readable())
    return exchange.run_id


def _graded(client: BrowserClient, own_run: str, **fields: str) -> Response:
    client.get("/console/grades")
    return client.post("/console/grades", **{"run": own_run, **fields})


def _samples(server: SampleServer, out: Path) -> list[tuple[object, object]]:
    folder = server.folder
    words = ["optimize", "dataset", str(out), "--traces", str(folder / "traces")]
    run = CliRunner().invoke(main, [*words, "--grades", str(folder / "grades.jsonl")])
    assert run.exit_code in (0, 1), run.output
    return [(one.input, one.expected) for one in read_dataset(out)] if run.exit_code == 0 else []


def test_a_good_answer_becomes_a_sample(server: SampleServer, client: BrowserClient, tmp_path: Path) -> None:
    assert "no grade yet" in words_of(client.get("/console/grades"))
    assert _samples(server, tmp_path / "none.jsonl") == []
    answer = _graded(client, _run(server), good="yes")

    assert answer.status_code == 303
    assert "good, says operator" in words_of(client.get("/console/grades"))
    assert _samples(server, tmp_path / "samples.jsonl") == [({"question": "When do parcels leave?"}, ANSWER)]
    assert "Nothing to grade here" in words_of(client.get("/console/grades?open=1"))


def test_a_bad_answer_needs_a_correction_and_the_last_grade_counts(
    server: SampleServer, client: BrowserClient, tmp_path: Path
) -> None:
    run = _run(server)
    _graded(client, run, good="yes")
    _graded(client, run, good="no")
    assert _samples(server, tmp_path / "none.jsonl") == []
    _graded(client, run, good="no", expected="At 11.", note="They moved it.")

    assert [expected for _, expected in _samples(server, tmp_path / "samples.jsonl")] == ["At 11."]
    assert "They moved it." in words_of(client.get("/console/grades"))


def test_a_secret_in_a_correction_is_not_stored(server: SampleServer, client: BrowserClient) -> None:
    secret = next(word for word in SECRET.split() if word.startswith("AKIA"))
    _graded(client, _run(server), good="no", expected=f"Use {secret} here.", note=f"not {secret}")
    stored = (server.folder / "grades.jsonl").read_text("utf-8")

    assert secret not in stored
    assert "redacted" in stored


def test_the_grade_of_an_erased_run_goes_with_the_next_one(
    server: SampleServer, client: BrowserClient, tmp_path: Path
) -> None:
    book = GradeBook(server.folder / "grades.jsonl")
    book.add(Grade(run_id="erased", good=False, by="Ada", expected="Ada lives in Bergen."))
    _graded(client, _run(server), good="yes")

    assert list(book.grades()) == [_run(server)]
    assert "Bergen" not in (server.folder / "grades.jsonl").read_text("utf-8")
    assert len(_samples(server, tmp_path / "samples.jsonl")) == 1


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"run": "no-such", "good": "yes"}, 404),
        ({"run": "", "good": "yes"}, 404),
        ({"run": "run-a", "good": "yes"}, 404),
        ({"run": "../../etc/passwd", "good": "yes"}, 404),
        ({"good": "perhaps"}, 422),
        ({"good": "no", "expected": "x" * 20_001}, 422),
    ],
)
def test_what_is_no_grade_is_refused(
    server: SampleServer, client: BrowserClient, fields: dict[str, str], status: int
) -> None:
    assert _graded(client, _run(server), **fields).status_code == status
    assert not (server.folder / "grades.jsonl").exists()


def test_only_operators_grade(server: SampleServer) -> None:
    run = _run(server)
    for token in (server.auditor, server.agent):
        with browser_client(server, token) as other:
            assert _graded(other, run, good="yes").status_code == 403
    assert not (server.folder / "grades.jsonl").exists()


def test_a_form_without_its_token_is_refused(server: SampleServer, client: BrowserClient) -> None:
    answer = client.post("/console/grades", run=_run(server), good="yes", form_token="wrong")

    assert answer.status_code == 403
    assert client.get("/console/grades?begin=x").status_code == 422


def test_a_line_that_a_crash_cut_off_takes_no_later_grade_along(tmp_path: Path) -> None:
    book = GradeBook(tmp_path / "grades.jsonl")
    book.add(Grade(run_id="r1", good=True, by="Ada"))
    with (tmp_path / "grades.jsonl").open("ab") as file:
        file.write(b'{"by":"Ad')
    book.add(Grade(run_id="r2", good=True, by="Ada"))

    assert list(book.grades()) == ["r1", "r2"]
    assert book.prune(lambda run: run == "r2") == 1
    assert list(book.grades()) == ["r2"]
