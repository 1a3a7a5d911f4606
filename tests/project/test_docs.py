"""README and docs are true: snippets run, links resolve, the command reference is current."""

import re
import shlex
import subprocess
from collections import Counter
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt
from markdown_it.token import Token

import standfast
from standfast.cli import main
from standfast.settings import Settings
from tests.project import api_reference, cli_reference, error_reference, settings_reference

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [page for page in sorted([*ROOT.glob("*.md"), *DOCS.glob("**/*.md")]) if "_build" not in page.parts]


@cache
def _all_fences(page: Path) -> list[Token]:
    tokens = MarkdownIt().disable("inline").parse(page.read_text(encoding="utf-8"))
    return [token for token in tokens if token.type == "fence"]


def _fences(page: Path, language: str) -> list[Token]:
    return [token for token in _all_fences(page) if token.info.split()[:1] == [language]]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


WITH_PYTHON, WITH_CONSOLE = (
    [page for page in PAGES if _fences(page, language)] for language in ("python", "console")
)


@pytest.mark.parametrize("page", [page for page in WITH_PYTHON if page not in WITH_CONSOLE], ids=_name)
def test_python_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snippets of one page share their variables, as a reader who types them in order would expect."""
    monkeypatch.chdir(tmp_path)
    _run_python(page)


def _run_python(page: Path) -> None:
    names: dict[str, object] = {"__name__": page.stem}
    for fence in _fences(page, "python"):
        first_line = (fence.map or [0, 0])[0] + 1
        exec(compile("\n" * first_line + fence.content, _name(page), "exec"), names)


@pytest.mark.parametrize("page", WITH_CONSOLE, ids=_name)
def test_console_snippets_print_what_they_show(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``$ standfast …`` lines are run and must print the lines below them; ``…`` stands for any text.

    A line that writes a file, ``$ echo … > FILE``, is run by a shell. The page's Python snippets run first,
    in the same folder.
    """
    monkeypatch.chdir(tmp_path)
    _run_python(page)
    for fence in _fences(page, "console"):
        for block in re.split(r"^\$ ", fence.content, flags=re.MULTILINE)[1:]:
            call, _, expected = block.partition("\n")
            piped, _, line = call.rpartition(" | ")
            words = shlex.split(line)
            if words[0] == "echo":
                subprocess.run(["sh", "-c", line], check=True)
            if words[0] != "standfast":
                continue
            stdin = shlex.split(piped)[-1] if piped else None
            printed = CliRunner().invoke(main, words[1:], input=stdin).output
            pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
            assert re.fullmatch(pattern, printed.strip(), re.DOTALL), f"{call}\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_to_files_resolve(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = [
        target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target
    ]

    assert [target for target in targets if target and not (page.parent / target).exists()] == []


def test_the_command_reference_is_the_commands_own_help() -> None:
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == cli_reference.reference(), "run: make cli-docs"


def test_the_page_of_error_codes_is_made_from_the_error_classes() -> None:
    kinds = list(error_reference.kinds())

    assert len({kind.code for kind in kinds}) == len(kinds)
    assert (DOCS / "errors.md").read_text(encoding="utf-8") == error_reference.reference(), (
        "run: make cli-docs"
    )


def test_the_page_of_settings_is_made_from_their_types_and_docstrings() -> None:
    names = [field.name for field in msgspec.structs.fields(Settings)]

    assert sorted(settings_reference.docs_of(Settings)) == sorted(names), "a setting has no docstring"
    assert set(settings_reference.PARTS) <= set(names)
    assert (DOCS / "settings.md").read_text(encoding="utf-8") == settings_reference.reference(), (
        "run: make cli-docs"
    )


def test_the_api_pages_have_every_exported_name() -> None:
    told = [name for modules in api_reference.PARTS.values() for name in api_reference.names_of(modules)]
    told += api_reference.names_of(api_reference.ELSEWHERE)

    assert sorted(told) == dir(standfast)
    assert (DOCS / "api.md").read_text(encoding="utf-8") == api_reference.reference(), "run: make cli-docs"
    optimiser = (DOCS / "api-optimize.md").read_text(encoding="utf-8")
    assert optimiser == api_reference.optimize_reference(), "run: make cli-docs"


def test_every_docs_page_is_in_the_index_once() -> None:
    trees = _fences(DOCS / "index.md", "{toctree}")
    lines = [line for tree in trees for line in tree.content.splitlines()]
    entries = [line for line in lines if line and not line.startswith(":")]
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES if page.is_relative_to(DOCS)}
    times = Counter(page for page in pages for entry in entries if fnmatch(page, entry))

    assert pages - {"index"} - set(times) == set()
    assert [page for page, count in times.items() if count > 1] == []
    assert [entry for entry in entries if not any(fnmatch(page, entry) for page in pages)] == []


def test_the_support_bot_has_forty_lines() -> None:
    bot = _fences(DOCS / "support-bot.md", "python")[0].content

    assert sum(1 for line in bot.splitlines() if line.strip()) <= 40
