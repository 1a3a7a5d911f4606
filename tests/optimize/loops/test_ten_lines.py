"""``optimize(prompt, dataset, provider)``: one call, and a report that explains itself."""

from standfast.optimize import (
    AllOf,
    Contains,
    Dataset,
    GateSettings,
    ModelRequest,
    Sample,
    ScriptedProvider,
    evaluate,
    optimize,
)
from tests.optimize.loops.harness import TEMPLATE, agent, dataset
from tests.raising import raises_code

TEXT = "Please note that you are a calculator.\n\nIn order to win, add ${a} and ${b}.\n\nYou like the sea."


def _adds(request: ModelRequest) -> str:
    words = request.prompt.split("add ")[1].split(".")[0].split(" and ")
    return str(int(words[0]) + int(words[1]))


def test_a_text_is_optimised_in_one_call_and_the_report_explains_itself() -> None:
    samples = Dataset(
        samples=tuple(Sample(id=f"s{n}", input={"a": n, "b": 1}, expected=str(n + 1)) for n in range(100))
    )
    report = optimize(TEXT, samples, ScriptedProvider(_adds))

    [change] = report.modifications
    assert change.proposed_body.startswith("You are a calculator.\n\nTo win, add ${a} and ${b}.")
    assert "You like the sea." in change.proposed_body
    assert "fewer tokens" in str(report)
    assert "'You like the sea.'" in str(report)


def test_a_template_and_settings_are_taken_too() -> None:
    report = optimize(
        TEMPLATE, dataset(100), agent(), strategies=["ablation"], gate=GateSettings(remove_untested=True)
    )

    assert report.total_token_reduction > 0


def test_a_failure_is_raised() -> None:
    with raises_code("optimization_failed", match="no_baseline_pass"):
        optimize(TEMPLATE, dataset(100), agent(lambda *_: False))


def test_first_mistakes_are_told_with_advice_that_helps() -> None:
    rows = [{"a": number, "expected": "1"} for number in range(80)]
    model = ScriptedProvider(lambda _: "1")

    with raises_code("invalid_value", match="choose among rewrite"):
        optimize("Please note: add ${a}", rows, model, strategies=["shorten"])
    with raises_code("optimization_failed", match="value for b.*Mend what the first of them says"):
        optimize("Please note: add ${b}", rows, model)
    with raises_code("invalid_provider", match=r"ScriptedProvider\(function\)"):
        optimize("Please note: add ${a}", rows, lambda prompt: prompt)  # type: ignore[arg-type]
    with raises_code("invalid_provider"):
        evaluate("Add ${a}", rows, ScriptedProvider)  # type: ignore[arg-type]
    for metric in (Contains, AllOf):
        with raises_code("invalid_evaluator", match=rf"such as {metric.__name__}\(\)"):
            optimize("Please note: add ${a}", rows, model, evaluator=metric)


def test_the_same_sample_twice_is_one_observation() -> None:
    rows = [{"a": number % 20, "b": 1, "expected": str(number % 20 + 1)} for number in range(400)]
    report = optimize("Please note that you add.\n\nAdd ${a} and ${b}.", rows, agent())

    assert (report.choosing_samples + report.confirming_samples, report.repeated_samples) == (20, 380)
    assert not report.has_modifications
    assert "380 samples are the same as another one and count once" in str(report)


def test_a_copy_of_a_sample_that_must_pass_must_pass() -> None:
    row = {"a": 1, "expected": "1"}
    [sample] = Dataset.of([row, {**row, "must_pass": True}, row]).distinct()

    assert (sample.id, sample.must_pass) == ("row-1", True)
