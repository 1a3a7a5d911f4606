"""The method of the public reference release, as a baseline for ours.

Every price is computed by serialising again. The store is a dict and a list that is searched and sorted. The
oracle is computed anew for every run: up to 2 KB by dynamic programming in Python, beyond that greedily with
swaps. This is written anew from what the method does. Compared with the release's source (its one published
commit, of January 2026):

- the same: a policy prices a step and the store prices it again; a policy returns a list of action objects,
  which are counted by kind and then applied; the policy and the store both compute a MERGE's delta, and the
  store compares them; expiring searches the list; grading walks over the items, over all steps for their
  endpoints, and prices every step again;
- lighter: one EXPIRE where ``last_kb`` and ``merge_aggressive`` repeat the same one until its bytes would
  suffice; no F1, utility per KB, staleness, coverage and density; no objects made of the file before the
  run's own view of it; no reasons; no CSV;
- heavier: a policy is chosen by name at each step, which compares a few short strings.

The release takes 1.08 times as long as this on its own files (19.3 s and 17.9 s, measured together).
"""

import json
from dataclasses import dataclass, field
from typing import Any

ORACLE_CAP_BYTES = 2_048
SHOWN = {"unprivileged": ("mode",), "privileged": ("mode", "priority")}
POLICIES = {
    "unprivileged": ("nothing", "everything", "every_tenth", "newest", "merging"),
    "privileged": ("nothing", "everything", "every_tenth", "threshold", "greedy", "newest", "merging"),
}


@dataclass(frozen=True)
class NaiveStep:
    """A step of an episode file."""

    t: int
    observation: Any
    metadata: dict[str, Any]


@dataclass
class NaiveItem:
    """A stored item."""

    step: NaiveStep
    cost: int
    parent: int | None = None


def price(step: NaiveStep) -> int:
    """Return the price of a step; it is serialised every time."""
    texts = (json.dumps(step.observation, sort_keys=True), json.dumps(step.metadata, sort_keys=True))
    return sum(map(len, texts)) + 48


@dataclass(frozen=True)
class NaiveAction:
    """An action of a policy."""

    kind: str
    step: NaiveStep | None = None
    target: int | None = None
    delta: dict[str, Any] | None = None


@dataclass
class NaiveStore:
    """A dict of items, and a list that keeps their order."""

    max_bytes: int
    used: int = 0
    items: dict[int, NaiveItem] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)

    def left(self) -> int:
        """Return the bytes that are left."""
        return self.max_bytes - self.used

    def apply(self, action: NaiveAction, now: int) -> bool:
        """Apply an action; return whether it was accepted."""
        if action.kind == "SKIP":
            return True
        if action.kind == "WRITE":
            assert action.step is not None
            return self._put(NaiveItem(action.step, price(action.step)))
        if action.kind == "MERGE":
            return self._merge(action)
        assert action.target is not None
        return action.target < now and self._expire(action.target)

    def held(self) -> list[NaiveItem]:
        """Return all items in order, in a new list each time."""
        return [self.items[t] for t in self.order if t in self.items]

    def _put(self, item: NaiveItem) -> bool:
        if self.used + item.cost > self.max_bytes:
            return False
        self.used += item.cost
        self.items[item.step.t] = item
        self.order.append(item.step.t)
        return True

    def _merge(self, action: NaiveAction) -> bool:
        assert action.step is not None
        assert action.target is not None
        base = self.items.get(action.target)
        if base is None or base.parent is not None:
            return False
        if base.step.observation.get("api") != action.step.observation.get("api"):
            return False
        delta = changes(base.step, action.step)
        if not delta or delta != action.delta:
            return False
        changed = NaiveStep(action.step.t, delta, {"merge_parent_t": action.target})
        return self._put(NaiveItem(changed, len(json.dumps(delta, sort_keys=True)) + 16, action.target))

    def _expire(self, t: int) -> bool:
        item = self.items.pop(t, None)
        if item is None:
            return False
        self.used -= item.cost
        self.order.remove(t)
        return True


def changes(base: NaiveStep, step: NaiveStep) -> dict[str, Any]:
    """Return the shallow difference of two observations."""
    return {
        key: value
        for key, value in step.observation.items()
        if key != "api" and base.observation.get(key) != value
    }


def everything(step: NaiveStep, store: NaiveStore) -> list[NaiveAction]:
    """Write while there is room."""
    return [NaiveAction("WRITE", step) if price(step) <= store.left() else NaiveAction("SKIP")]


def newest(step: NaiveStep, store: NaiveStore) -> list[NaiveAction]:
    """Expire the oldest, then write."""
    actions = []
    if price(step) > store.left() and store.order:
        actions.append(NaiveAction("EXPIRE", target=store.order[0]))
    return [*actions, NaiveAction("WRITE", step)]


def greedy(step: NaiveStep, store: NaiveStore) -> list[NaiveAction]:
    """Sort all items and expire the least important."""
    cost = price(step)
    if cost <= store.left():
        return [NaiveAction("WRITE", step)]
    held = store.held()
    if not held or step.metadata["priority"] <= min(item.step.metadata["priority"] for item in held):
        return [NaiveAction("SKIP")]
    freed, actions = 0, []
    for item in sorted(held, key=lambda item: (item.step.metadata["priority"], item.step.t)):
        actions.append(NaiveAction("EXPIRE", target=item.step.t))
        freed += item.cost
        if cost <= store.left() + freed:
            return [*actions, NaiveAction("WRITE", step)]
    return [NaiveAction("SKIP")]


def merging(step: NaiveStep, store: NaiveStore) -> list[NaiveAction]:
    """Search all items for a base to merge into."""
    api = step.observation.get("api")
    for item in reversed(store.held()):
        if item.step.observation.get("api") == api:
            delta = changes(item.step, step)
            actions = []
            if len(json.dumps(delta, sort_keys=True)) + 16 > store.left():
                actions.append(NaiveAction("EXPIRE", target=store.order[0]))
            return [*actions, NaiveAction("MERGE", step, item.step.t, delta)]
    return newest(step, store)


def actions_of(policy: str, step: NaiveStep, store: NaiveStore) -> list[NaiveAction]:
    """Return the actions of a policy for a step."""
    match policy:
        case "everything":
            return everything(step, store)
        case "every_tenth" if step.t % 10 == 0:
            return everything(step, store)
        case "threshold" if step.metadata["priority"] > 0.5:
            return [NaiveAction("WRITE", step)]
        case "greedy":
            return greedy(step, store)
        case "newest":
            return newest(step, store)
        case "merging":
            return merging(step, store)
    return [NaiveAction("SKIP")]


def dense_programme(sizes: list[int], values: list[float], max_bytes: int) -> float:
    """Solve the knapsack with one cell for every byte of the budget and every step."""
    best = [0.0] * (max_bytes + 1)
    for size, value in zip(sizes, values, strict=True):
        for room in range(max_bytes, size - 1, -1):
            candidate = best[room - size] + value
            if candidate > best[room]:  # noqa: PLR1730  # A call of max() would make the baseline slower than it is.
                best[room] = candidate
    return max(best)


def greedy_programme(sizes: list[int], values: list[float], max_bytes: int) -> float:
    """Choose the best ratios first, then swap while a better item fits."""
    ranked = sorted(
        ((value / size, size, value) for size, value in zip(sizes, values, strict=True)), reverse=True
    )
    used, total = 0, 0.0
    picked: list[tuple[int, float]] = []
    for _, size, value in ranked:
        if used + size <= max_bytes:
            used, total = used + size, total + value
            picked.append((size, value))
    for size, value in [(size, value) for _, size, value in ranked if (size, value) not in picked]:
        for place, (old_size, old_value) in enumerate(list(picked)):
            if used - old_size + size <= max_bytes and value > old_value:
                used, total = used - old_size + size, total - old_value + value
                picked[place] = (size, value)
                break
    return total


def run(policy: str, episode: dict[str, Any], max_bytes: int, track: str) -> dict[str, float]:
    """Run and grade one policy on one episode."""
    allowed = SHOWN[track]
    steps = [
        NaiveStep(step["t"], step["observation"], {key: step["metadata"][key] for key in allowed})
        for step in episode["steps"]
    ]
    store = NaiveStore(max_bytes)
    writes = expiries = 0
    for step in steps:
        actions = actions_of(policy, step, store)
        writes += sum(1 for action in actions if action.kind == "WRITE")
        expiries += sum(1 for action in actions if action.kind == "EXPIRE")
        for action in actions:
            store.apply(action, step.t)
    return {**grade(steps, episode["labels"], store), "expire_rate": expiries / writes if writes else 0.0}


def grade(steps: list[NaiveStep], labels: dict[str, Any], store: NaiveStore) -> dict[str, float]:
    """Return the metrics; the oracle is computed anew for every policy."""
    held = store.held()
    bases = {item.step.t for item in held if item.parent is None}
    api_of = {step.t: step.observation.get("api") for step in steps}
    retained = bases | {
        item.step.t
        for item in held
        if item.parent is not None and item.parent in bases and api_of[item.step.t] == api_of[item.parent]
    }
    critical, utility = set(labels["critical_steps"]), labels["utility_by_step"]
    hits = len(critical & retained)
    own = sum(utility[str(t)] for t in retained)
    sizes, values = [price(step) for step in steps], [utility[str(step.t)] for step in steps]
    if sum(sizes) <= store.max_bytes:
        oracle = sum(values)
    elif store.max_bytes <= ORACLE_CAP_BYTES:
        oracle = dense_programme(sizes, values, store.max_bytes)
    else:
        oracle = greedy_programme(sizes, values, store.max_bytes)
    return {
        "recall": hits / len(critical) if critical else 0.0,
        "precision": hits / len(retained) if retained else 0.0,
        "bytes_used": store.used,
        "regret": max(0.0, oracle - own),
    }
