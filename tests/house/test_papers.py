"""README and docs tell the truth: their snippets run, their links lead somewhere, their commands exist."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt
from markdown_it.token import Token

from standfast.cli import main
from tests.house.cli_reference import reference

ROOT = Path(__file__).parents[2]
PAPERS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PAPERS = [paper for paper in PAPERS if "_build" not in paper.parts]


def _fences(paper: Path, language: str) -> list[Token]:
    tokens = MarkdownIt().parse(paper.read_text(encoding="utf-8"))
    return [token for token in tokens if token.type == "fence" and token.info.split()[:1] == [language]]


def _name(paper: Path) -> str:
    return str(paper.relative_to(ROOT))


WITH_PYTHON, WITH_CONSOLE = (
    [p for p in PAPERS if _fences(p, language)] for language in ("python", "console")
)


@pytest.mark.parametrize("paper", [p for p in WITH_PYTHON if p not in WITH_CONSOLE], ids=_name)
def test_python_snippets_run(paper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snippets of one paper share their names, as a reader who types them in order would expect."""
    monkeypatch.chdir(tmp_path)
    _run_python(paper)


def _run_python(paper: Path) -> None:
    names: dict[str, object] = {"__name__": paper.stem}
    for fence in _fences(paper, "python"):
        first_line = (fence.map or [0, 0])[0] + 1
        exec(compile("\n" * first_line + fence.content, _name(paper), "exec"), names)


@pytest.mark.parametrize("paper", WITH_CONSOLE, ids=_name)
def test_console_snippets_print_what_they_show(
    paper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``$ standfast …`` lines are run; what stands below must come out, ``…`` standing for anything.

    The paper's Python snippets run first, and these find what they left in the working folder, as a reader's would.
    """
    monkeypatch.chdir(tmp_path)
    Path("facts.jsonl").write_text('{"memory_id":"m1","text":"VAT is 19 %."}\n', encoding="utf-8")
    _run_python(paper)
    for fence in _fences(paper, "console"):
        for block in re.split(r"^\$ ", fence.content, flags=re.MULTILINE)[1:]:
            call, _, shown = block.partition("\n")
            given, _, line = call.rpartition(" | ")
            words = shlex.split(line)
            if words[0] != "standfast":
                continue
            stdin = shlex.split(given)[-1] if given else None
            printed = CliRunner().invoke(main, words[1:], input=stdin).output
            pattern = ".*".join(re.escape(part) for part in shown.strip().split("…"))
            assert re.fullmatch(pattern, printed.strip(), re.DOTALL), f"{call}\n{printed}"


@pytest.mark.parametrize("paper", PAPERS, ids=_name)
def test_links_between_papers_lead_somewhere(paper: Path) -> None:
    text = paper.read_text(encoding="utf-8")
    targets = [
        target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target
    ]

    assert [target for target in targets if target and not (paper.parent / target).exists()] == []


def test_the_command_reference_is_the_commands_own_help() -> None:
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == reference(), "run: make cli-docs"


def test_every_docs_page_can_be_found_from_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {
        paper.relative_to(ROOT / "docs").with_suffix("").as_posix()
        for paper in PAPERS
        if "docs" in paper.parts
    }

    assert {page for page in pages - {"index"} if page not in index} == set()
