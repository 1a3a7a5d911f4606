"""``optimize(prompt, dataset, provider)``: one call, and a report that explains itself."""

from standfast.optimize import Dataset, GateSettings, ModelRequest, Sample, ScriptedProvider, optimize
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
