"""Samples and datasets that prompts are evaluated on."""

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from standfast.canon import fingerprint
from standfast.vocabulary import Value

InputT = TypeVar("InputT")
ExpectedT = TypeVar("ExpectedT")


class Sample(Value, Generic[InputT, ExpectedT], frozen=True, kw_only=True):
    """One input with the expected output. If the input is an object, its members are the prompt's parameters."""

    id: str
    input: InputT
    expected: ExpectedT

    def __post_init__(self) -> None:
        self._require_name("id", self.id)

    @property
    def params(self) -> dict[str, Any]:
        """The prompt's parameters: the input's members, or the input itself under the name ``input``."""
        return dict(self.input) if isinstance(self.input, dict) else {"input": self.input}

    @property
    def digest(self) -> str:
        """The hash of input and expected output, without the id."""
        return fingerprint(["sample/v1", self.input, self.expected])


class Dataset(Value, Generic[InputT, ExpectedT], frozen=True, kw_only=True):
    """Samples with unique ids."""

    samples: tuple[Sample[InputT, ExpectedT], ...]

    def __post_init__(self) -> None:
        ids = [sample.id for sample in self.samples]
        self._require(len(set(ids)) == len(ids), "two samples have the same id")

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample[InputT, ExpectedT]]:
        return iter(self.samples)

    @property
    def digest(self) -> str:
        """The hash of all samples, independent of their order."""
        return fingerprint(["dataset/v1", sorted([sample.id, sample.digest] for sample in self.samples)])

    def split(self, share: float) -> "tuple[Dataset[InputT, ExpectedT], Dataset[InputT, ExpectedT]]":
        """Split into a part to choose candidates by and a held-out part of exactly this share to confirm them by.

        A hash of each sample's id decides, so the order of the samples does not matter, and few samples change sides when
        others are added.
        """
        ranked = sorted(
            (sample.id for sample in self.samples),
            key=lambda name: (fingerprint(["held-out/v1", name]), name),
        )
        held_out = set(ranked[: round(share * len(ranked))])
        return (
            Dataset(samples=tuple(sample for sample in self.samples if sample.id not in held_out)),
            Dataset(samples=tuple(sample for sample in self.samples if sample.id in held_out)),
        )
