"""The console's pages of prompt overrides and of the optimiser's reports."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from standfast.errors import InvalidSettings, InvalidValue, StandfastError
from standfast.limits import MAX_REPORT_BYTES, MAX_SHOWN_REPORTS
from standfast.optimize.loops.report import OptimizationReport
from standfast.optimize.opening import open_overrides
from standfast.optimize.settings import PromptSettings
from standfast.settings import Settings
from standfast.traces.folder import TraceFolder

REPORT_NAMES: Final = "optimization*.json"


def prompts_page(
    settings: Settings,
    query: Mapping[str, str],  # noqa: ARG001  # A page's signature.
    traces: TraceFolder | None,  # noqa: ARG001  # As above.
) -> dict[str, Any]:
    """The prompt overrides in use, and the optimisation reports."""
    own = settings.section(PromptSettings)
    problem: StandfastError | None = None
    try:
        if not own.overrides:
            raise InvalidSettings(
                name="prompts.overrides",
                source="settings",
                problem="no place is set; the main store of this server may have one",
            )
        overrides = open_overrides(own.overrides).list()
    except StandfastError as error:
        overrides, problem = [], error
    reports: list[tuple[str, OptimizationReport | None]] = []
    for file in _report_files(own):
        try:
            reports.append((file.name, _report(file)))
        except StandfastError:
            reports.append((file.name, None))
    return {
        "overrides": overrides,
        "problem": problem,
        "reports": reports,
        "overrides_at": own.overrides,
        "reports_at": own.reports,
    }


def report_page(
    settings: Settings,
    query: Mapping[str, str],
    traces: TraceFolder | None,  # noqa: ARG001  # A page's signature.
) -> dict[str, Any]:
    """One optimisation report, with the difference of each section."""
    name = query.get("file", "")
    # Only a listed file is opened, so that an address can't name another one.
    for file in _report_files(settings.section(PromptSettings)):
        if file.name == name:
            return {"name": name, "report": _report(file)}
    raise InvalidValue(
        what="file", problem=f"there is no report {name!r:.80}; the page of prompts lists them"
    )


def _report_files(own: PromptSettings) -> list[Path]:
    if not own.reports:
        return []
    folder = Path(own.reports)
    return sorted(file for file in folder.glob(REPORT_NAMES) if file.is_file())[:MAX_SHOWN_REPORTS]


def _report(file: Path) -> OptimizationReport:
    try:
        if file.stat().st_size > MAX_REPORT_BYTES:
            raise InvalidValue(what=f"report {file.name}", problem="it is too large for a page")
        return OptimizationReport.from_json(json.loads(file.read_bytes()))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidValue(what=f"report {file.name}", problem=str(error)) from None
