"""HeldOutUses: which held-out samples have already confirmed prompts, and how often.

A sample that has decided once about a prompt is no longer unseen: what was applied was chosen because it passed there. Each test on the
same samples therefore gets a smaller share of the level. The same test with the same outcome is the same use, so that a
repeated optimization costs nothing.
"""

from collections.abc import Sequence

import msgspec

from standfast.vocabulary import Value

_ID_CHARS = 16


class HeldOutTest(Value, frozen=True, kw_only=True):
    """One test on held-out samples: what was compared, a digest of all runs, and its number."""

    baseline_digest: str
    candidate_digest: str
    outcome: str
    number: int


class HeldOutUses(Value, frozen=True, kw_only=True):
    """All tests on held-out samples of one prompt; ``counts`` says how often each sample took part."""

    counts: dict[str, int] = msgspec.field(default_factory=dict)
    tests: tuple[HeldOutTest, ...] = ()

    def next_number(self, samples: Sequence[str]) -> int:
        """Return the number of the next test on these samples, given by their digests."""
        return 1 + max((self.counts.get(sample[:_ID_CHARS], 0) for sample in samples), default=0)

    def number_of(self, baseline_digest: str, candidate_digest: str, samples: Sequence[str]) -> int:
        """Return the number of this comparison: that of its last test, or the next one."""
        numbers = [
            test.number
            for test in self.tests
            if (test.baseline_digest, test.candidate_digest) == (baseline_digest, candidate_digest)
        ]
        return numbers[-1] if numbers else self.next_number(samples)

    def lowest_number(self, baseline_digest: str, samples: Sequence[str]) -> int:
        """Return the lowest number that a comparison with this baseline can have."""
        numbers = [test.number for test in self.tests if test.baseline_digest == baseline_digest]
        return min([*numbers, self.next_number(samples)])

    def recorded(
        self, baseline_digest: str, candidate_digest: str, outcome: str, samples: Sequence[str]
    ) -> "tuple[HeldOutUses, int]":
        """Return the uses with a test added, and its number. A test that is known with this outcome is not added."""
        for test in self.tests:
            if (test.baseline_digest, test.candidate_digest, test.outcome) == (
                baseline_digest,
                candidate_digest,
                outcome,
            ):
                return self, test.number
        number = self.next_number(samples)
        test = HeldOutTest(
            baseline_digest=baseline_digest,
            candidate_digest=candidate_digest,
            outcome=outcome,
            number=number,
        )
        counts = self.counts | {sample[:_ID_CHARS]: number for sample in samples}
        return HeldOutUses(counts=counts, tests=(*self.tests, test)), number
