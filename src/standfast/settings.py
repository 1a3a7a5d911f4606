"""What a deployment decides: read once, from a file and the environment, then frozen.

A setting has the same name everywhere: ``store`` here is ``store`` in ``standfast.toml`` and ``STANDFAST_STORE`` in the
environment, which wins. An unknown name is an error, because a misspelt safety setting must not be a silent default.
"""

import os
from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

from standfast.errors import InvalidSettings, UnknownPolicy
from standfast.vocabulary import Band, VisibilityMode

ENVIRONMENT_PREFIX: Final = "STANDFAST_"
TEST_PREFIX: Final = "STANDFAST_TEST_"
# A secret of one caller is no decision of a deployment, and belongs in no file of settings.
KEY_VARIABLE: Final = "STANDFAST_API_KEY"
FILE_NAME: Final = "standfast.toml"


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings, with defaults that are safe: nothing writes unless it is asked to."""

    store: str = "standfast.db"
    """Where memory lives: the path of a SQLite file, or ``postgresql://…``, or ``:memory:``."""

    namespace: str = "default"
    """Whose memory it is, where a command does not say."""

    visibility_mode: VisibilityMode = VisibilityMode.READ_ONLY
    """What a run may do that does not say."""

    allow_live_read_write: bool = False
    """Whether ``live_read_write`` may be used at all: it gives up reproducibility."""

    strict: bool = True
    """Whether a write that breaks the policy is refused; otherwise it is let pass with a warning, for development."""

    signers: str = "allowed_signers"
    """Who may seal: a file in OpenSSH's ``allowed_signers`` form."""

    revoked_signers: str = ""
    """Keys that may not sign any more: a file with one public key a line."""

    log_key: str = ""
    """The key that signs the ledger's checkpoints; by default ``<store>-log.key`` beside the store's file."""

    checkpoints: str = ""
    """Where signed checkpoints are kept; by default ``<store>-log.checkpoints`` beside the store's file."""

    traces: str = ""
    """The folder in which traces of runs are kept; none are kept without one."""

    bench_results: str = "bench-results"
    """The folder of a finished grid, which the console and the API show; 'standfast bench run' writes there."""

    prompt_reports: str = "."
    """The folder whose optimization*.json the console shows; 'standfast optimize run' writes such reports."""

    prompt_overrides: str = "overrides"
    """Where overrides of prompts are kept, for the console and the API: a folder, redis://… or s3://bucket/prefix."""

    band_policies: dict[Band, str] = {}
    """Which write policy spends a band's bytes, by name; 'standfast bench leaderboard --deploy' prints such lines."""

    band_budgets_bytes: dict[Band, int] = {}
    """How many bytes a band may hold; one without a budget keeps everything."""

    def __post_init__(self) -> None:
        self._check_bands()
        if not self.store:
            raise InvalidSettings(
                name="store", source="settings", problem="it is empty; give a path or a URL"
            )
        if self.visibility_mode is VisibilityMode.LIVE_READ_WRITE and not self.allow_live_read_write:
            raise InvalidSettings(
                name="visibility_mode",
                source="settings",
                problem="live_read_write gives up reproducibility; set allow_live_read_write = true to mean it",
            )

    def _check_bands(self) -> None:
        """A misspelt policy must not wait for the first commit to be found."""
        for name, bands in (
            ("band_policies", self.band_policies),
            ("band_budgets_bytes", self.band_budgets_bytes),
        ):
            if Band.VAULT in bands:
                problem = "what is sealed never expires, so that VAULT has neither a policy nor a budget"
                raise InvalidSettings(name=name, source="settings", problem=problem)
        for band, budget in self.band_budgets_bytes.items():
            if band not in self.band_policies:
                problem = f"{band} has a budget and no policy to spend it; name one in band_policies"
                raise InvalidSettings(name="band_budgets_bytes", source="settings", problem=problem)
            if budget < 1:
                problem = f"{band} needs 1 byte or more, not {budget}"
                raise InvalidSettings(name="band_budgets_bytes", source="settings", problem=problem)
        if self.band_policies:
            from standfast.policies.registry import PolicySpec  # noqa: PLC0415  # Only a deployment with one pays for it.

            for policy in self.band_policies.values():
                try:
                    PolicySpec.parse(policy)
                except UnknownPolicy as error:
                    raise InvalidSettings(
                        name="band_policies", source="settings", problem=str(error)
                    ) from None

    @classmethod
    def load(cls, environment: Mapping[str, str], *, file: str | os.PathLike[str] | None = None) -> Self:
        """Settings from ``file`` (by default ``standfast.toml`` in the working folder, if it is there) and environment."""
        chosen: dict[str, tuple[Any, str]] = {}
        for name, value in _read_file(file).items():
            chosen[name] = (value, os.fspath(file or FILE_NAME))
        for variable in sorted(environment):
            is_ours = variable.startswith(ENVIRONMENT_PREFIX) and not variable.startswith(TEST_PREFIX)
            if is_ours and variable != KEY_VARIABLE:
                name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
                chosen[name] = (environment[variable], variable)
        return cls(**{name: cls._checked(name, value, source) for name, (value, source) in chosen.items()})

    @classmethod
    def _checked(cls, name: str, value: object, source: str) -> Any:
        kinds = {field.name: field.type for field in msgspec.structs.fields(cls)}
        if name not in kinds:
            raise InvalidSettings(
                name=name, source=source, problem=f"there are only {', '.join(sorted(kinds))}"
            )
        try:
            # Text from the environment becomes a number or a boolean where the setting is one.
            return msgspec.convert(value, kinds[name], strict=not isinstance(value, str))
        except msgspec.ValidationError as error:
            raise InvalidSettings(name=name, source=source, problem=str(error)) from None


def _read_file(file: str | os.PathLike[str] | None) -> dict[str, Any]:
    path = os.fspath(file or FILE_NAME)
    if file is None and not os.path.exists(path):  # noqa: PTH110  # pathlib costs every start 6 ms, and only this file asks.
        return {}
    import tomllib  # noqa: PLC0415  # Only a deployment with a file pays for the parser.

    try:
        with open(path, "rb") as toml:  # noqa: PTH123  # As above.
            return tomllib.load(toml)
    except FileNotFoundError:
        raise InvalidSettings(name="(file)", source=path, problem="there is no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidSettings(name="(file)", source=path, problem=str(error)) from None
