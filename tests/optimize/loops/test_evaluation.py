"""Evaluating without optimizing: one prompt, two compared, a matrix; and samples made of what really
happened.
"""

from pathlib import Path
from typing import Any

import pytest

from standfast.clock import CountedIds, ManualClock, RandomIds
from standfast.memory import Memory
from standfast.optimize import (
    Dataset,
    Experiment,
    Grade,
    GradeBook,
    LocalPromptOverridesStore,
    MainLoop,
    MainLoopRequest,
    ModelRequest,
    PromptTemplate,
    ScriptedProvider,
    Section,
    SectionOverride,
    compare_experiments,
    evaluate,
    provider_matrix,
)
from standfast.traces.folder import TraceFolder
from tests.optimize.loops.harness import agent, dataset
from tests.raising import raises_code

PROMPT = "You add.\n\nAdd ${a} and ${b}."


def test_a_prompt_is_evaluated_once_on_every_sample_and_errors_are_no_grades() -> None:
    def needs(number: int, _prompt: str, _repeat: int) -> bool:
        if number == 3:
            raise ValueError("the model is gone")
        return number != 5

    report = evaluate(PROMPT, dataset(10), agent(needs))

    assert [result.sample_id for result in report.results] == [f"s{n}" for n in range(10)]
    assert report.pass_rate == pytest.approx(8 / 9)
    assert [result.sample_id for result in report.errors] == ["s3"]


def test_two_experiments_are_compared_sample_by_sample(tmp_path: Path) -> None:
    template = PromptTemplate(ns="n", key="k", sections=(Section(key="s", body=PROMPT),))
    store = LocalPromptOverridesStore(tmp_path)
    for tag, body in (("a", PROMPT), ("b", PROMPT.replace("You add.", "Sum."))):
        override = SectionOverride(path=("s",), expected_hash=template.sections[0].content_hash, body=body)
        store.replace(template, [override], tag=tag)
    needs = lambda number, prompt, _repeat: number != 7 or "You add" in prompt  # noqa: E731
    before, after = (
        evaluate(
            template, dataset(60), agent(needs), experiment=Experiment(tag, tag, tag), overrides_store=store
        )
        for tag in ("a", "b")
    )
    found = compare_experiments(before, after, dataset(60))

    assert (found.ruling.lost, found.ruling.gained) == (("s7",), ())
    assert found.ruling.passed
    assert str(found).splitlines() == [
        "pass rate 100.0% → 98.3%, 1 lost, 0 gained: no worse",
        "  - s7: '15' became 'I do not know'",
    ]


def test_every_prompt_meets_every_model() -> None:
    good, bad = agent(), agent(lambda *_: False)
    matrix = provider_matrix({"one": PROMPT, "two": PROMPT}, dataset(4), {"good": good, "bad": bad})

    assert matrix.cells["two"]["good"].pass_rate == 1.0
    assert matrix.cells["one"]["bad"].pass_rate == 0.0
    assert str(matrix).splitlines()[1].split() == ["one", "100.0%", "0.0%"]


def _talked(tmp_path: Path) -> tuple[Memory, list[str]]:
    """Three questions of two users, and their runs."""
    folder = TraceFolder(tmp_path / "traces", ids=RandomIds())
    memory = Memory.open(":memory:", clock=ManualClock(), ids=CountedIds(), traces=folder)

    def script(request: ModelRequest) -> str:
        return "in May" if "open" in request.prompt else "I do not know"

    template = PromptTemplate(ns="n", key="k", sections=(Section(key="s", body="Q: ${question}"),))
    main: MainLoop[Any] = MainLoop(adapter=ScriptedProvider(script), template=template, memory=memory)
    asked = (("When do you open?", "user/ada"), ("Who?", "user/ada"), ("Why?", "shared"))
    runs = [main.execute(MainLoopRequest({"question": text}, scope=scope)).run_id for text, scope in asked]
    return memory, [run for run in runs if run is not None]


def test_graded_exchanges_become_samples_with_their_scope(tmp_path: Path) -> None:
    memory, runs = _talked(tmp_path)
    book = GradeBook(tmp_path / "grades.jsonl")
    book.add(Grade(run_id=runs[0], good=False, by="Ada"))
    book.add(Grade(run_id=runs[0], good=True, by="Ada"))
    book.add(Grade(run_id=runs[1], good=False, by="Ada", expected="Bob"))
    book.add(Grade(run_id=runs[2], good=False, by="Ada", note="no idea"))
    assert memory.traces is not None
    traces = [trace for _, trace in memory.traces.readable()]
    samples = {one.id: one for one in Dataset.from_traces(traces, grades=book.grades())}

    assert {name: (one.input, one.expected, one.scope) for name, one in samples.items()} == {
        runs[0]: ({"question": "When do you open?"}, "in May", "user/ada"),
        runs[1]: ({"question": "Who?"}, "Bob", "user/ada"),
    }
    by_rule = Dataset.from_traces(
        traces,
        grades=lambda one: Grade(run_id=one.run_id, good=True, by="rule") if one.scope == "shared" else None,
    )
    assert [one.id for one in by_rule] == [runs[2]]


def test_a_grade_book_survives_a_crash_in_its_last_line(tmp_path: Path) -> None:
    file = tmp_path / "grades.jsonl"
    assert GradeBook(file).grades() == {}
    GradeBook(file).add(Grade(run_id="r1", good=True, by="Ada"))
    file.write_bytes(file.read_bytes() + b'{"by":"Ad')

    assert list(GradeBook(file).grades()) == ["r1"]
    file.write_bytes(b"no json\n")
    with raises_code("invalid_dataset", match="line 1"):
        GradeBook(file).grades()
