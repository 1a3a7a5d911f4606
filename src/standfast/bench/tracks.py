"""What a policy on each track sees of a step. The rest is not hidden from it: it is not there.

The steps that a policy is shown are also what is stored and priced: a hint that it may not see does not cost it bytes.
"""

from typing import Final

from standfast.policies.protocol import Track
from standfast.vocabulary import Step

# Told by the source of a stream, not derived from labels.
BENIGN: Final = ("mode", "source", "version_distance")
HINTED: Final = (*BENIGN, "priority")

VISIBLE: Final = {
    Track.UNPRIVILEGED: BENIGN,
    Track.PRIVILEGED: HINTED,
    Track.BANDIT: BENIGN,
    Track.ORACLE: BENIGN,
}
assert set(VISIBLE) == set(Track)


def view(steps: tuple[Step, ...], track: Track) -> tuple[Step, ...]:
    """The steps as a policy on this track sees them."""
    allowed = VISIBLE[track]
    names = frozenset(allowed)
    return tuple(
        step
        if step.metadata.keys() <= names
        else Step(
            t=step.t,
            observation=step.observation,
            metadata={key: step.metadata[key] for key in allowed if key in step.metadata},
        )
        for step in steps
    )
