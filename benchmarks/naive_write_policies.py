"""The way most people would write the benchmark first, to measure ours against: the public reference release's method.

Every price is worked out by serialising again, the store is a list that is searched and sorted, and the oracle is a dynamic
programme in Python up to 2 KB and a greedy choice with swaps beyond. Written anew from what that method does.
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
    """A step as it stands in the file."""

    t: int
    observation: Any
    metadata: dict[str, Any]


@dataclass
class NaiveItem:
    """What is held of a step."""

    step: NaiveStep
    cost: int
    parent: int | None = None


def price(step: NaiveStep) -> int:
    """Serialised again whenever it is asked for."""
    texts = (json.dumps(step.observation, sort_keys=True), json.dumps(step.metadata, sort_keys=True))
    return sum(map(len, texts)) + 48


@dataclass
class NaiveStore:
    """A dict of items, and a list that keeps their order."""

    max_bytes: int
    used: int = 0
    items: dict[int, NaiveItem] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)

    def left(self) -> int:
        """What may still be used."""
        return self.max_bytes - self.used

    def put(self, item: NaiveItem) -> None:
        """Hold it if it fits."""
        if self.used + item.cost <= self.max_bytes:
            self.used += item.cost
            self.items[item.step.t] = item
            self.order.append(item.step.t)

    def write(self, step: NaiveStep) -> None:
        """Hold a step whole."""
        self.put(NaiveItem(step, price(step)))

    def merge(self, step: NaiveStep, base_t: int) -> None:
        """Hold what a step changes."""
        base = self.items.get(base_t)
        if base is None or base.parent is not None:
            return
        delta = changes(base.step, step)
        if delta:
            changed = NaiveStep(step.t, delta, {"merge_parent_t": base_t})
            self.put(NaiveItem(changed, len(json.dumps(delta, sort_keys=True)) + 16, base_t))

    def expire(self, t: int) -> None:
        """Let go of it."""
        item = self.items.pop(t, None)
        if item is not None:
            self.used -= item.cost
            self.order.remove(t)

    def held(self) -> list[NaiveItem]:
        """All items in order, in a new list each time."""
        return [self.items[t] for t in self.order if t in self.items]


def changes(base: NaiveStep, step: NaiveStep) -> dict[str, Any]:
    """The shallow difference of two observations."""
    return {
        key: value
        for key, value in step.observation.items()
        if key != "api" and base.observation.get(key) != value
    }


def everything(step: NaiveStep, store: NaiveStore) -> None:
    """Write while there is room."""
    if price(step) <= store.left():
        store.write(step)


def newest(step: NaiveStep, store: NaiveStore) -> None:
    """Let the oldest go, then write."""
    if price(step) > store.left() and store.order:
        store.expire(store.order[0])
    store.write(step)


def greedy(step: NaiveStep, store: NaiveStore) -> None:
    """Sort all that is held, and let the least important go."""
    cost = price(step)
    if cost <= store.left():
        store.write(step)
        return
    held = store.held()
    if not held or step.metadata["priority"] <= min(item.step.metadata["priority"] for item in held):
        return
    freed, gone = 0, []
    for item in sorted(held, key=lambda item: (item.step.metadata["priority"], item.step.t)):
        gone.append(item.step.t)
        freed += item.cost
        if cost <= store.left() + freed:
            for t in gone:
                store.expire(t)
            store.write(step)
            return


def merging(step: NaiveStep, store: NaiveStore) -> None:
    """Search all that is held for a base to merge into."""
    api = step.observation.get("api")
    for item in reversed(store.held()):
        if item.step.observation.get("api") == api:
            cost = len(json.dumps(changes(item.step, step), sort_keys=True)) + 16
            if cost > store.left():
                store.expire(store.order[0])
            store.merge(step, item.step.t)
            return
    newest(step, store)


def act(policy: str, step: NaiveStep, store: NaiveStore) -> None:
    """What a policy does about a step."""
    match policy:
        case "everything":
            everything(step, store)
        case "every_tenth" if step.t % 10 == 0:
            everything(step, store)
        case "threshold" if step.metadata["priority"] > 0.5:
            store.write(step)
        case "greedy":
            greedy(step, store)
        case "newest":
            newest(step, store)
        case "merging":
            merging(step, store)


def dense_programme(sizes: list[int], values: list[float], max_bytes: int) -> float:
    """The knapsack, one cell for every byte of the budget and every step."""
    best = [0.0] * (max_bytes + 1)
    for size, value in zip(sizes, values, strict=True):
        for room in range(max_bytes, size - 1, -1):
            candidate = best[room - size] + value
            if candidate > best[room]:  # noqa: PLR1730  # A call of max() would make the baseline slower than it is.
                best[room] = candidate
    return max(best)


def greedy_programme(sizes: list[int], values: list[float], max_bytes: int) -> float:
    """The best ratios first, then swaps while a better one fits."""
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
    """One policy over one episode, graded."""
    allowed = SHOWN[track]
    steps = [
        NaiveStep(step["t"], step["observation"], {key: step["metadata"][key] for key in allowed})
        for step in episode["steps"]
    ]
    store = NaiveStore(max_bytes)
    for step in steps:
        act(policy, step, store)
    return grade(steps, episode["labels"], store)


def grade(steps: list[NaiveStep], labels: dict[str, Any], store: NaiveStore) -> dict[str, float]:
    """The metrics, the oracle among them, which is made anew for every policy."""
    held = store.held()
    bases = {item.step.t for item in held if item.parent is None}
    retained = bases | {item.step.t for item in held if item.parent in bases}
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
