"""Rules for the whole tree: file sizes, file and class names, explained lint exceptions."""

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

from standfast.records.rows import RowKind

ROOT = Path(__file__).parents[2]
MAX_FILE_LINES = 640
MAX_FUNCTION_LINES = 70
VAGUE_NAMES = re.compile(
    r"(^|_)(utils?|helpers?|common|base|core|misc|managers?|services?|phase\d*|v\d+)(_|$)"
)
# The contract itself calls this controller phase6-v1.
NAMED_BY_THE_CONTRACT = {"src/standfast/recall/phase6.py"}
# Class names that stand twice. The set only shrinks: rename one of the two and take the name out.
KNOWN_DUPLICATES: set[str] = set()

TRACKED = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    if (ROOT / name).is_file()
]
PYTHON = [path for path in TRACKED if path.suffix == ".py"]
SOURCE = [path for path in PYTHON if path.is_relative_to(ROOT / "src")]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_files_have_a_readable_size_and_a_clear_name() -> None:
    long = [
        _name(path) for path in PYTHON if len(path.read_text(encoding="utf-8").splitlines()) > MAX_FILE_LINES
    ]
    vague = {_name(path) for path in PYTHON if VAGUE_NAMES.search(path.stem)}

    assert long == [], "split each by subject"
    assert vague == NAMED_BY_THE_CONTRACT, "name the file after its subject"


def test_functions_fit_a_screen() -> None:
    long = [
        f"{_name(path)}, {node.name}: {node.end_lineno - node.lineno + 1} lines"
        for path in SOURCE
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= MAX_FUNCTION_LINES
    ]

    assert long == []


def test_a_class_name_stands_once_in_the_package() -> None:
    classes = Counter(
        node.name
        for path in SOURCE
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )

    assert {name for name, count in classes.items() if count > 1} - KNOWN_DUPLICATES == set()


def test_no_work_is_left_as_a_note() -> None:
    marks = re.compile(
        "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error", "no " + "cover"))
    )

    assert [_name(path) for path in PYTHON if marks.search(path.read_text(encoding="utf-8"))] == []


def test_every_lint_exception_has_a_reason() -> None:
    exception = re.compile(r"#\s*(noqa|type:\s*ignore)")
    exception_with_reason = re.compile(r"#\s*(noqa: [A-Z0-9, ]+|type: ignore\[[a-z-, ]+\])\s+#\s+\S")
    bare = [
        f"{_name(path)}:{number}"
        for path in SOURCE
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if exception.search(line) and not exception_with_reason.search(line)
    ]
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lint = pyproject[
        pyproject.index("[tool.ruff.lint]") : pyproject.index("[tool.ruff.lint.flake8-tidy-imports]")
    ]
    unexplained = [
        line for line in lint.splitlines() if re.match(r'  "[A-Z]+\d*",', line) and "#" not in line
    ]

    assert bare == []
    assert unexplained == []


def test_no_machine_path_and_no_registry_is_named() -> None:
    parts = ("/wor" + "k/", "/roo" + "t/", "/hom" + "e/", "pyp" + "i.org", "python" + "hosted", "npm" + "js.")
    named = [
        f"{_name(path)}: {part}"
        for path in TRACKED
        if path.suffix not in (".png", ".ico")
        for part in parts
        if part in path.read_text(encoding="utf-8", errors="replace")
    ]

    assert named == []


def test_no_mark_of_a_merge_is_left() -> None:
    marks = tuple(mark * 7 + " " for mark in "<>")
    left = [
        f"{_name(path)}:{number}"
        for path in TRACKED
        if path.suffix not in (".png", ".ico")
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if line.startswith(marks)
    ]

    assert left == []


def test_the_beginning_of_a_key_stands_only_in_the_table_of_row_kinds() -> None:
    begins = tuple(f"{kind}/" for kind in RowKind)
    label = re.compile(r"[a-z]+/v\d+")
    makers = ("scoped_key", "row_key", "prefix_of")
    spelled = []
    for path in SOURCE:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in docstrings else None
            if isinstance(text, str) and text.startswith(begins) and not label.fullmatch(text):
                spelled.append(f"{_name(path)}: {text!r:.60}")
            args = node.args if isinstance(node, ast.Call) and getattr(node.func, "id", "") in makers else ()
            spelled += [
                f"{_name(path)}: {one.value!r:.60}"
                for one in args[:1]
                if isinstance(one, ast.Constant) and one.value
            ]

    assert spelled == [], "name the kind: RowKind.SAID"


def test_the_list_of_long_tests_names_tests_that_exist() -> None:
    lines = (ROOT / "tests" / "long_tests.txt").read_text(encoding="utf-8").splitlines()
    named = [line for line in lines if not line.startswith("#")]
    assert named == sorted(set(named)), "sorted, each once"
    for line in named:
        file, _, test = line.partition("::")
        function = test.partition("[")[0]
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), line
