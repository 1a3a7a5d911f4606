"""Policies are found by name, a user's own too, and errors name the problem."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from standfast import MemoryAction, Step
from standfast.bench.entrants import Entrant
from standfast.bench.runner import run_policy
from standfast.errors import UnknownPolicy
from standfast.limits import MAX_IDLE_ACTIONS
from standfast.policies import (
    ByteBudget,
    ByteMemoryStore,
    apply_policy,
    estimate_bytes,
    expire,
    write,
    write_policy,
)
from standfast.policies.write_policy import SKIP, PolicySpec, Track, policy_names
from tests.bench.episodes import small_episode
from tests.raising import raises_code

DOCUMENT = {
    "AlwaysWrite", "NeverWrite", "UniformSample", "PriorityThreshold", "RecencyBias", "UtilityGreedy",
    "RandomPolicy", "EpsilonGreedy", "BanditUCB", "MergeAggressive", "ExpireOldest", "OracleOptimal",
}  # fmt: skip

OWN = """
from standfast.policies.write_policy import write

class Mine:
    '''Writes every step.'''

    def select(self, step, store):
        yield write(step)

class Cheat(Mine):
    track = "oracle"

class Named(Mine):
    def __init__(self, *, label):
        self.label = label

class Wide(Mine):
    def __init__(self, *, h=0, g=0, f=0, e=0, d=0, c=0, b=0, a=0):
        pass

class Lost(Mine):
    track = "nowhere"

class Learner(Mine):
    def learn(self, step, utility):
        pass

class Torn:
    def __init__(self):
        raise ValueError("not today")

    def select(self, step, store):
        return ()
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module with policies of a user's own, importable for this test."""
    (tmp_path / "own_policies.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    write_policy._load.cache_clear()
    sys.modules.pop("own_policies", None)
    return tmp_path


def test_all_policies_of_the_document_are_registered() -> None:
    assert set(policy_names()) >= DOCUMENT | {"DriftValue", "MergeFirst", "RareDrift"}
    assert all(PolicySpec.parse(name).kind.__doc__ for name in policy_names())


def test_only_the_two_hindsight_policies_see_labels() -> None:
    tracks = {name: PolicySpec.parse(name).track for name in policy_names()}

    assert {name for name, track in tracks.items() if track is Track.ORACLE} == {
        "UtilityGreedy",
        "OracleOptimal",
    }
    assert {name for name, track in tracks.items() if track is Track.BANDIT} == {"EpsilonGreedy", "BanditUCB"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("always-write", "AlwaysWrite"),
        ("ALWAYS_WRITE", "AlwaysWrite"),
        ("fifo_store_all", "AlwaysWrite"),
        ("last_kb", "RecencyBias"),
        (" UniformSample( every = 5 ) ", "UniformSample(every=5)"),
    ],
)
def test_names_are_accepted_in_several_spellings(text: str, name: str) -> None:
    assert str(PolicySpec.parse(text)) == name
    assert PolicySpec.parse(str(PolicySpec.parse(text))) == PolicySpec.parse(text)


def test_a_policy_takes_a_seed_if_it_draws_lots() -> None:
    assert PolicySpec.parse("RandomPolicy").takes_seed
    assert not PolicySpec.parse("AlwaysWrite").takes_seed


def test_settings_are_named_in_order_when_one_is_unknown(own: Path) -> None:
    unknown = ", ".join(f"x{number}=1" for number in range(99, 9, -1))
    with pytest.raises(UnknownPolicy, match="no setting 'x10'; it has a, b, c, d, e, f, g, h"):
        PolicySpec.parse(f"own_policies:Wide({unknown})")


def test_of_two_installed_names_that_read_the_same_the_first_in_order_is_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_policy, "_installed", lambda: {"to_do": None, "To-Do": None})

    assert write_policy._canonical_name("todo") == "To-Do"
    assert policy_names()[-2:] == ["To-Do", "to_do"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Nobody", "there is none of that name"),
        ("AlwaysWrite(", "write Name, or Name"),
        ("UniformSample(every)", "not setting=value"),
        ("UniformSample(=5)", "not setting=value"),
        ("UniformSample(every=)", "not setting=value"),
        ("UniformSample(every=5, every=6)", "given twice"),
        ("AlwaysWrite(p=1)", "it has none"),
        ("UniformSample(each=5)", "no setting 'each'"),
        ("UniformSample(every=0)", "must be 1 or more"),
        ("no.such:Policy", "can't be loaded"),
        ("json:loads", "a class with select"),
        ("json:JSONDecoder", "a class with select"),
        ("UniformSample(zeta=1, alpha=2)", "no setting 'alpha'; it has every"),
        ("EpsilonGreedy(x=1)", "it has epsilon, seed"),
        ("", "write Name"),
    ],
)
def test_an_invalid_policy_is_reported_with_its_problem(text: str, problem: str) -> None:
    with pytest.raises(UnknownPolicy, match=problem):
        PolicySpec.parse(text)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("RandomPolicy(p=0.25,seed=7)", (("p", 0.25), ("seed", 7))),
        ("RandomPolicy(seed=7, p=1)", (("p", 1), ("seed", 7))),
        ("RandomPolicy()", ()),
        ("no_mem", ()),
    ],
)
def test_settings_are_json_values_sorted_by_name(text: str, settings: tuple[tuple[str, object], ...]) -> None:
    assert PolicySpec.parse(text).settings == settings


def test_a_seed_in_the_settings_wins_over_the_runs_seed() -> None:
    def draws(text: str, seed: int) -> set[int]:
        store = ByteMemoryStore(ByteBudget(10**6))
        run_policy(PolicySpec.parse(text).build(seed=seed), small_episode(40).steps, store)
        return store.retained()

    assert draws("RandomPolicy(seed=7)", 1) == draws("RandomPolicy(seed=7)", 2) == draws("RandomPolicy", 7)
    assert draws("RandomPolicy", 1) != draws("RandomPolicy", 2)


def test_a_setting_that_is_not_json_is_text(own: Path) -> None:
    spec = PolicySpec.parse("own_policies:Named(label=plain)")

    assert spec.settings == (("label", "plain"),)
    assert str(spec) == 'own_policies:Named(label="plain")'
    assert PolicySpec.parse(str(spec)) == spec


def test_a_policy_that_shrinks_a_step_pays_its_price_before_that() -> None:
    class Shrinking:
        def select(self, step: Step, store: ByteMemoryStore) -> Iterator[MemoryAction]:  # noqa: ARG002  # The protocol's signature.
            step.observation["text"] = ""
            yield write(step)

    step = Step(t=0, observation={"text": "x" * 100})
    price = estimate_bytes(step)
    store = ByteMemoryStore(ByteBudget(1_000))
    apply_policy(Shrinking(), step, store)

    assert store.held_bytes == price > estimate_bytes(step)


def test_a_policy_may_emit_a_thousand_actions_without_effect_and_no_more() -> None:
    class Patient:
        def __init__(self, count: int) -> None:
            self.count = count

        def select(self, step: Step, store: ByteMemoryStore) -> Iterator[MemoryAction]:  # noqa: ARG002  # The protocol's signature.
            for number in range(self.count):
                yield expire(5) if number % 2 else SKIP[0]
            yield write(step)

    step = Step(t=3, observation="x")
    store = ByteMemoryStore(ByteBudget(100))
    applied = apply_policy(Patient(MAX_IDLE_ACTIONS), step, store)

    assert [accepted for _, accepted in applied] == [True, False] * (MAX_IDLE_ACTIONS // 2) + [True]
    assert applied[-1][0] == write(step)
    with raises_code("endless_policy", match="timestep 3") as caught:
        apply_policy(Patient(MAX_IDLE_ACTIONS + 1), step, ByteMemoryStore(ByteBudget(100)))
    assert caught.value.facts["actions"] == MAX_IDLE_ACTIONS


def test_a_users_own_policy_is_one_class_with_select(own: Path) -> None:
    spec = PolicySpec.parse("own_policies:Mine")

    assert spec.track is Track.UNPRIVILEGED
    assert callable(spec.build().select)


def test_a_policy_that_claims_the_oracle_track_without_its_method_is_refused(own: Path) -> None:
    with pytest.raises(UnknownPolicy, match="go together"):
        PolicySpec.parse("own_policies:Cheat")
    with pytest.raises(UnknownPolicy, match="the bandit track go together"):
        PolicySpec.parse("own_policies:Learner")
    with pytest.raises(UnknownPolicy, match="no track 'nowhere'"):
        PolicySpec.parse("own_policies:Lost")
    with pytest.raises(UnknownPolicy, match="not today"):
        PolicySpec.parse("own_policies:Torn")


def test_an_installed_package_brings_policies_by_name(own: Path) -> None:
    info = own / "own_policies-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: own-policies\nVersion: 1.0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(
        "[standfast.policies]\nZeal = own_policies:Mine\nMine = own_policies:Mine\nAble ="
        " own_policies:Mine\n",
        encoding="utf-8",
    )

    assert policy_names()[-3:] == ["Able", "Mine", "Zeal"]
    assert PolicySpec.parse("mine").name == "Mine"


def test_an_unprivileged_policy_may_be_shown_hints_but_never_labels() -> None:
    assert Entrant.parse("AlwaysWrite@privileged").track is Track.PRIVILEGED
    assert str(Entrant.parse("AlwaysWrite@privileged")) == "AlwaysWrite@privileged"
    for text in (
        "AlwaysWrite@oracle",
        "AlwaysWrite@bandit",
        "PriorityGreedy@unprivileged",
        "BanditUCB@privileged",
    ):
        with pytest.raises(UnknownPolicy, match="track"):
            Entrant.parse(text)
