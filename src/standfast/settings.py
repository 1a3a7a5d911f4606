"""Settings of a deployment, read once from a file and the environment.

A setting has one name everywhere: ``store`` here is ``store`` in ``standfast.toml`` and ``STANDFAST_STORE``
in the environment. The environment wins over the file. An unknown name is an error, so that a misspelt safety
setting is not silently replaced by its default. A package outside the core has a section of its own:
``results``
of the section ``[bench]`` is ``STANDFAST_BENCH_RESULTS`` in the environment; see ``standfast.extensions``.

    Settings.load(os.environ)
    Settings.load({}, file="deploy/standfast.toml")
    Settings(store="agent.db", namespace="support")
"""

import os
from collections.abc import Mapping
from math import inf
from typing import Any, Final, Literal, NoReturn, Self, TypeVar

import msgspec

from standfast.errors import InvalidSettings, InvalidValue, UnknownPolicy
from standfast.extensions import extensions, part_at
from standfast.limits import (
    DEFAULT_SIGNED_ENTRIES,
    DEFAULT_SIGNED_SECONDS,
    DEFAULT_TRACES_BYTES,
    MAX_TRACE_BYTES,
    MIN_TRACE_RETENTION_DAYS,
)
from standfast.records.conversion import converted, decoded
from standfast.records.origins import Origin, origin_table
from standfast.records.vocabulary import Band, CommitPolicy, VisibilityMode

ENVIRONMENT_PREFIX: Final = "STANDFAST_"
TEST_PREFIX: Final = "STANDFAST_TEST_"
# The secret of one caller is not a setting of the deployment and must not stand in a settings file.
KEY_VARIABLE: Final = "STANDFAST_API_KEY"
FILE_NAME: Final = "standfast.toml"


class ModelFloorSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[model_floor]``: which model checks texts, and where its answers are kept.

    Attributes:
        provider: ``openai`` (or a compatible server), ``anthropic``, ``scripted``, or one that an installed
            package brings.
        model: The model's name at the provider.
        base_url: The URL of a server with the provider's API; empty for the provider's own.
        script: The file of rules of the scripted provider.
        cache: A folder for the answers; empty keeps them in memory only.
        hard: Whether UNSAFE rejects a text. By default it needs review.
    """

    provider: str
    model: str = ""
    base_url: str = ""
    script: str = ""
    cache: str = ""
    hard: bool = False


class SettingsSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the settings that a package outside the core brings. Every field has a default."""

    def check(self, settings: "Settings") -> None:
        """Refuse values that are invalid, by themselves or together with other settings."""

    def of_further_store(self, host: str) -> Self:  # noqa: ARG002  # For sections that differ between stores.
        """The section for one of the further stores, by its host name."""
        return self


S = TypeVar("S", bound=SettingsSection)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a deployment. The defaults are safe: runs write only if they ask to.

    Raises ``InvalidSettings`` with the setting's name, where it comes from, and what to change.
    """

    store: str = "standfast.db"
    """Where memory is stored: the path of a SQLite file, ``postgresql://…``, or ``:memory:``."""

    namespace: str = "default"
    """The namespace (tenant) to use if a command or call names none."""

    visibility_mode: VisibilityMode = VisibilityMode.READ_ONLY
    """The mode of runs that name none: ``off``, ``read_only``, ``buffered_write`` or ``live_read_write``."""

    visibility_ceiling: VisibilityMode = VisibilityMode.BUFFERED_WRITE
    """What memory may be used for: ``off``, ``read_only``, or ``buffered_write`` to read and write."""

    allow_live_read_write: bool = False
    """Whether runs may use ``live_read_write``, which gives up reproducibility."""

    strict: bool = True
    """Whether a write that breaks the write policy is refused.

    False lets it pass with a warning, for development.
    """

    commit_policy: CommitPolicy = CommitPolicy.ACCEPTED
    """Whether a run is committed if only some of its texts are accepted (``accepted``), or rejected as a
    whole (``all_or_nothing``).
    """

    signers: str = "allowed_signers"
    """File that lists who may sign approvals, in the form of OpenSSH's ``allowed_signers``."""

    revoked_signers: str = ""
    """File with revoked public keys, one a line. Empty: none are revoked."""

    log_key: str = ""
    """Private key file that signs the ledger's checkpoints.

    Empty: ``log.key`` among the store's side files.
    """

    checkpoints: str = ""
    """File of the signed checkpoints.

    Empty: ``checkpoints`` among the store's side files.
    """

    witness: str = ""
    """URL of a witness that cosigns the ledger's checkpoints (c2sp.org/tlog-witness); empty for none."""

    witness_key: str = ""
    """The public key of the witness, as ``standfast witness`` prints it. It is needed with ``witness``."""

    signed_entries: int = DEFAULT_SIGNED_ENTRIES
    """The ledger's head is signed as soon as so many entries are not covered by a checkpoint."""

    signed_seconds: float = DEFAULT_SIGNED_SECONDS
    """The ledger's head is signed so many seconds after the first entry that no checkpoint covers."""

    traces: str = ""
    """Folder for the traces of runs and calls.

    Empty: those of runs, among the store's side files; ``off``: none.
    """

    recall_log: bool = True
    """Whether it is noted which package was handed to whom, for investigations; see docs/incidents.md.

    The log is among the store's side files, and holds no content.
    """

    traces_max_bytes: int = DEFAULT_TRACES_BYTES
    """How much the folder of traces may hold.

    When it is full, those past their retention are removed; if there are none, new ones are not stored.
    """

    trace_retention_days: int = MIN_TRACE_RETENTION_DAYS
    """After how many days ``standfast retention sweep`` removes a trace; at least 14."""

    stores: dict[str, str] = {}
    """Further stores that ``standfast serve`` serves, by the host name that each is reached by.

    Each has its own keys, ledger and console.
    """

    band_policies: dict[Band, str] = {}
    """The write policy of each band, by name; ``standfast bench leaderboard --deploy`` prints these lines."""

    band_budgets_bytes: dict[Band, int] = {}
    """The byte budget of each band. A band without one keeps everything."""

    band_byte_models: dict[Band, Literal["spec-v0", "indexed-v0"]] = {}
    """How the items of a band with a budget are priced; ``spec-v0`` if it is not said."""

    floors: dict[str, dict[str, bool | int | float | str | list[str]]] = {}
    """Options of the judge's floors, by name: ``enabled``, ``threshold``, ``hard``, ``allow``,
    ``allow_scopes``, ``allow_sources``, those of a
    single floor, and ``entry_point`` for a floor of your own."""

    model_floor: ModelFloorSettings | None = None
    """A model that checks each text before it is stored; none unless it is set."""

    origins: dict[str, Origin] = {}
    """How far kinds of sources are trusted: ``trusted``, ``ordinary`` or ``untrusted``.

    A kind that is not listed keeps its default.
    """

    embedder: str = ""
    """Makes vectors for recall: ``static``, ``minilm``, ``local:FOLDER`` or
    ``https://HOST/v1?model=NAME&dimensions=384``. Empty: ``static``; ``none``: no vectors.
    """

    reranker: str = ""
    """Looks at the best records of a recall again: ``local:FOLDER`` for a cross-encoder, or
    ``https://HOST/v1?model=NAME`` for a server with ``/rerank``. Empty: nobody.
    """

    language: str = "english"
    """The language of texts, by which recall finds stems and function words: ``english``, ``german``, …, or
    ``none`` for code.
    """

    languages: dict[str, str] = {}
    """The language of single namespaces, where it is another."""

    sections: tuple[SettingsSection, ...] = ()
    """The sections of other packages, at most one of each class; ``section`` gives one, or its defaults."""

    def __post_init__(self) -> None:
        if not self.store:
            refuse("store", "it is empty; give a path or a URL")
        if self.visibility_mode is VisibilityMode.LIVE_READ_WRITE and not self.allow_live_read_write:
            refuse(
                "visibility_mode",
                "live_read_write gives up reproducibility; to use it, also set allow_live_read_write = true",
            )
        self._check_stores()
        if self.visibility_ceiling is VisibilityMode.LIVE_READ_WRITE:
            refuse(
                "visibility_ceiling",
                "it must be off, read_only or buffered_write; live_read_write is allowed by"
                " allow_live_read_write = true",
            )
        if self.trace_retention_days < MIN_TRACE_RETENTION_DAYS:
            refuse("trace_retention_days", f"traces are kept for at least {MIN_TRACE_RETENTION_DAYS} days")
        if self.traces_max_bytes < MAX_TRACE_BYTES:
            refuse("traces_max_bytes", f"it must hold at least one trace of {MAX_TRACE_BYTES} bytes")
        if bool(self.witness) != bool(self.witness_key):
            missing = "witness_key" if self.witness else "witness"
            refuse(missing, "witness and witness_key are used together; set both or neither")
        if self.signed_entries < 1:
            refuse("signed_entries", "it must be 1 or more")
        if not 0 < self.signed_seconds < inf:
            refuse("signed_seconds", "it must be a number of seconds above 0")
        self._check_bands()
        self._check_floors()
        self._check_languages()
        try:
            origin_table(self.origins)
        except InvalidValue as error:
            refuse("origins", str(error))
        for section in self.sections:
            section.check(self)

    def _check_stores(self) -> None:
        if len({self.store, *self.stores.values()}) <= len(self.stores) or not all(self.stores.values()):
            refuse("stores", "a store is named twice or is empty; give each host name a store of its own")
        for host in self.stores:
            check_host_name("stores", host)

    def _check_languages(self) -> None:
        if self.languages or self.language != "english":
            from standfast.recall.analysis import (  # noqa: PLC0415  # Slow to import, and rarely needed.
                analyzer_of,
            )

            for name, language in [
                ("language", self.language),
                *(("languages", one) for one in self.languages.values()),
            ]:
                try:
                    analyzer_of(language)
                except InvalidValue as error:
                    refuse(name, str(error))

    def _check_floors(self) -> None:
        """Check the floors' options now, so that a mistake does not wait for the first write."""
        if self.floors:
            from standfast.govern.judge import (  # noqa: PLC0415  # Slow to import, and rarely needed.
                FloorRegistry,
                Judge,
            )

            try:
                Judge(FloorRegistry.shipped().configured(self.floors))
            except InvalidValue as error:
                refuse("floors", str(error))

    def _check_bands(self) -> None:
        """Check policies and budgets now, so that a mistake does not wait for the first commit."""
        for name, bands in (
            ("band_policies", self.band_policies),
            ("band_budgets_bytes", self.band_budgets_bytes),
            ("band_byte_models", self.band_byte_models),
        ):
            if Band.VAULT in bands:
                refuse(name, "law never expires, so VAULT can't have a policy or a budget; remove VAULT")
        for band, budget in self.band_budgets_bytes.items():
            if band not in self.band_policies:
                refuse("band_budgets_bytes", f"{band} has a budget but no policy; name one in band_policies")
            if budget < 1:
                refuse("band_budgets_bytes", f"{band} needs at least 1 byte, not {budget}")
        for band in self.band_byte_models:
            if band not in self.band_budgets_bytes:
                refuse("band_byte_models", f"{band} has a byte model but no budget; set band_budgets_bytes")
        if self.band_policies:
            from standfast.policies import PolicySpec  # noqa: PLC0415  # Slow to import, and rarely needed.

            for policy in self.band_policies.values():
                try:
                    PolicySpec.parse(policy)
                except UnknownPolicy as error:
                    refuse("band_policies", str(error))

    def of_store(self, store: str) -> Self:
        """The settings for a store, given by its path, its URL or, if it is one of ``stores``, its host name.

        A further store has its own log, and its own traces if ``traces`` names a folder.
        """
        host = (
            store
            if store in self.stores
            else next((one for one, url in self.stores.items() if url == store), None)
        )
        if host is None:
            return msgspec.structs.replace(self, store=store)
        url, traces = self.stores[host], self.traces
        if traces not in ("", "off"):
            traces = f"{traces}/{host}"
        elif "://" in url:
            traces = "off"
        return msgspec.structs.replace(
            self,
            store=url,
            stores={},
            log_key="",
            checkpoints="",
            traces=traces,
            sections=tuple(self.section(kind).of_further_store(host) for kind in _section_classes().values()),
        )

    def section(self, kind: type[S]) -> S:
        """The section of a package, or its defaults if nothing was set."""
        return next((one for one in self.sections if isinstance(one, kind)), None) or kind()

    def with_section(self, section: SettingsSection) -> Self:
        """These settings with another section in place of the one of its class."""
        others = (one for one in self.sections if type(one) is not type(section))
        return msgspec.structs.replace(self, sections=(*others, section))

    @classmethod
    def load(cls, environment: Mapping[str, str], *, file: str | os.PathLike[str] | None = None) -> Self:
        """Load settings from a file and from ``STANDFAST_…`` variables, which win.

        Args:
            environment: Usually ``os.environ``.
            file: A TOML file, which must exist. Default: ``standfast.toml`` in the working folder, if any.
        """
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for name, value in _read_file(file).items():
            path = os.fspath(file or FILE_NAME)
            if _is_section(name) and isinstance(value, dict):
                for part, one in value.items():
                    values[f"{name}.{part}"], sources[f"{name}.{part}"] = one, path
            else:
                values[name], sources[name] = value, path
        for variable in sorted(environment):
            is_setting = variable.startswith(ENVIRONMENT_PREFIX) and not variable.startswith(TEST_PREFIX)
            if is_setting and variable != KEY_VARIABLE:
                name = _setting_of(variable.removeprefix(ENVIRONMENT_PREFIX).lower())
                values[name], sources[name] = environment[variable], variable
        try:
            own = {name: _converted(name, value) for name, value in values.items()}
            return cls(**_with_sections(own))
        except InvalidSettings as error:
            name = error.facts["name"]
            # A check over several settings names one of them; it may have its default value.
            source = sources.get(name, "the defaults")
            raise InvalidSettings(name=name, source=source, problem=error.facts["problem"]) from None


_OWN_TYPES: Final = {one.name: one.type for one in msgspec.structs.fields(Settings) if one.name != "sections"}


def _section_classes() -> dict[str, type[SettingsSection]]:
    """The sections of the packages that are installed, by name."""
    return {name: part_at(at) for one in extensions() for name, at in one.settings.items()}


def _is_section(name: str) -> bool:
    return name not in _OWN_TYPES and any(name in one.settings for one in extensions())


def _setting_of(name: str) -> str:
    """The setting of an environment variable: ``bench_results`` is ``results`` of the section ``bench``."""
    section, _, part = name.partition("_")
    return f"{section}.{part}" if name not in _OWN_TYPES and _is_section(section) else name


def _type_of(name: str) -> Any:
    if name in _OWN_TYPES:
        return _OWN_TYPES[name]
    section, _, part = name.partition(".")
    classes = _section_classes()
    if section not in classes:
        known = ", ".join((*sorted(_OWN_TYPES), *(f"[{one}]" for one in sorted(classes))))
        refuse(name, f"there is no such setting; the settings are {known}")
    types = {one.name: one.type for one in msgspec.structs.fields(classes[section])}
    if part not in types:
        refuse(name, f"the section [{section}] has no such setting; it has {', '.join(sorted(types))}")
    return types[part]


def _converted(name: str, value: object) -> Any:
    kind = _type_of(name)
    if kind == tuple[str, ...] and isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    try:
        if isinstance(value, str) and value.startswith("{") and kind is not str:
            # A table in the environment is JSON.
            return decoded(value.encode(), kind)
        # Text from the environment is converted to a number or a boolean where the setting is one.
        return converted(value, kind, strict=not isinstance(value, str))
    except msgspec.DecodeError as error:
        refuse(name, str(error))


def _with_sections(values: dict[str, Any]) -> dict[str, Any]:
    """The settings by name, those of sections (``bench.results``) as one object for each section."""
    own = {name: value for name, value in values.items() if name in _OWN_TYPES}
    parts: dict[str, dict[str, Any]] = {}
    for name in sorted(set(values) - set(own)):
        section, _, part = name.partition(".")
        parts.setdefault(section, {})[part] = values[name]
    classes = _section_classes() if parts else {}
    return own | {"sections": tuple(classes[name](**fields) for name, fields in parts.items())}


def check_host_name(setting: str, host: str) -> None:
    """Refuse what is no host name; ``setting`` is the name of the setting that it stands in."""
    if not host or not host.isascii() or any(mark in host for mark in "/ *,:@"):
        refuse(setting, f"{host!r:.80} is no host name; write it without scheme, port and path")


def refuse(name: str, problem: str) -> NoReturn:
    """Refuse the value of a setting."""
    raise InvalidSettings(name=name, source="the arguments", problem=problem)


def _read_file(file: str | os.PathLike[str] | None) -> dict[str, Any]:
    path = os.fspath(file or FILE_NAME)
    if file is None and not os.path.exists(path):  # noqa: PTH110  # Importing pathlib costs every start 6 ms.
        return {}
    import tomllib  # noqa: PLC0415  # Only a deployment with a file needs the parser.

    try:
        with open(path, "rb") as toml:  # noqa: PTH123  # As above.
            return tomllib.load(toml)
    except FileNotFoundError:
        raise InvalidSettings(name="(file)", source=path, problem="there is no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidSettings(name="(file)", source=path, problem=str(error)) from None
