"""What a run's behaviour may depend on: which tools, told by their profiles, and which model, told by its configuration.

A tool's profile owns the question of which fields of its arguments, results and side effects count. A request id or a
latency never counts; leaving them out of the profile is what makes two honest runs comparable.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from standfast.canon import canonical_bytes, fingerprint, normal_string
from standfast.limits import MAX_NAME_CHARS, MAX_TAGS, SAFE_INTEGER
from standfast.vocabulary import Value

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
# The length is told beside the pattern, because `$` also matches before a last line break in Python's dialect.
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", min_length=64, max_length=64)]
Count = Annotated[int, Meta(ge=0, le=SAFE_INTEGER)]
FieldNames = Annotated[tuple[Name, ...], Meta(max_length=MAX_TAGS)]

EVERY_FIELD: Final = ("*",)
NO_FIELDS: Final[tuple[str, ...]] = ()
WHOLE_PROFILE_VERSION: Final = "whole-v1"


class ToolProfile(Value, frozen=True, kw_only=True):
    """Which fields of a tool's calls count, under a version. ``("*",)`` is the whole value.

    ``side_effect_fields`` that are empty say that the tool has no side effects in scope; otherwise every call must be
    recorded with what it did. A tool that does not keep its results can be compared, but not replayed without it.
    """

    tool_name: Name
    tool_profile_version: Name
    normalized_args_fields: FieldNames = EVERY_FIELD
    tool_result_fields: FieldNames = EVERY_FIELD
    side_effect_fields: FieldNames = NO_FIELDS
    keeps_result: bool = True

    def __post_init__(self) -> None:
        for field in ("tool_name", "tool_profile_version"):
            normal = self._normal_names(field, (getattr(self, field),))
            msgspec.structs.force_setattr(self, field, normal[0])
        for field in ("normalized_args_fields", "tool_result_fields", "side_effect_fields"):
            names = getattr(self, field)
            self._require(
                isinstance(names, tuple | list) and len(names) <= MAX_TAGS,
                f"{field} must be at most {MAX_TAGS} names of fields",
            )
            msgspec.structs.force_setattr(self, field, tuple(sorted(set(self._normal_names(field, names)))))

    def _normal_names(self, field: str, names: Iterable[str]) -> list[str]:
        normal = [normal_string(name) if isinstance(name, str) else "" for name in names]
        self._require(
            all(0 < len(name) <= MAX_NAME_CHARS for name in normal),
            f"{field} must be 1 to {MAX_NAME_CHARS} characters",
        )
        return normal

    @classmethod
    def whole(cls, tool_name: str) -> "ToolProfile":
        """The profile of a tool that has none: all of its arguments and results count, and it has no side effects."""
        return cls(tool_name=tool_name, tool_profile_version=WHOLE_PROFILE_VERSION)

    @property
    def has_side_effects(self) -> bool:
        """Whether a call is incomplete without a ``side_effect_fingerprint``."""
        return bool(self.side_effect_fields)


def selected(fields: tuple[str, ...], value: object) -> object:
    """The part of a value that these fields are; a field that is not there is left out, which differs from null.

    A value that has no fields, such as a text, counts as a whole: dropping it would make all texts equal.
    """
    if "*" in fields or not isinstance(value, dict):
        return value
    return {name: value[name] for name in fields if name in value}


def tool_runtime_profile_hash(profiles: Iterable[ToolProfile]) -> str:
    """One digest for all tools that a run could call, whichever it did call."""
    by_name = sorted(profiles, key=lambda profile: profile.tool_name)
    return fingerprint(["tool-runtime-profile/v1", [profile.as_json() for profile in by_name]])


class ModelConfig(Value, frozen=True, kw_only=True):
    """Which model answered, and how it was told to: all that ``model_config_id`` is made of.

    ``stochastic_unseeded`` follows from the seed. A run without a seed can claim determinism only if its runtime
    guarantees it (``deterministic_runtime``): greedy decoding on a fixed build, a scripted model.
    """

    provider_name: Name
    model_name: Name
    model_revision: Name | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    max_tokens: Count | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: Annotated[int, Meta(ge=-SAFE_INTEGER, le=SAFE_INTEGER)] | None = None
    stochastic_unseeded: bool = False
    deterministic_runtime: bool = False
    other_params: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        for field in ("provider_name", "model_name"):
            self._require(bool(getattr(self, field)), f"{field} is empty")
        msgspec.structs.force_setattr(self, "stochastic_unseeded", self.seed is None)
        # Raises here, where it can be mended, rather than when the trace is made.
        canonical_bytes(msgspec.to_builtins(self))

    @property
    def is_reproducible(self) -> bool:
        """Whether the same prompt is bound to get the same answer."""
        return self.seed is not None or self.deterministic_runtime


def model_config_id(model: ModelConfig, profiles: Iterable[ToolProfile]) -> str:
    """The identity of a model with the tools it was offered."""
    return fingerprint(["model-config-id/v1", model.as_json(), tool_runtime_profile_hash(profiles)])
