"""Shapes: structure read off an output, whatever its words are."""

from difflib import unified_diff
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.errors import NotCanonical
from standfast.traces.shapes import (
    ChangeKind,
    ShapeChange,
    code_patch_shape,
    json_shape,
    output_shape_hash,
    text_shape,
)
from tests.json_values import values


def test_a_texts_sections_are_its_headings_and_what_stands_before() -> None:
    text = "Hello.\n\n# Intro\nwords\n```\n# no heading\n```\n## Body ##\n#tag\n"

    assert text_shape(text).sections == ("", "Intro", "Body")
    assert text_shape("# Intro\nother words\n## Body").sections == ("Intro", "Body")
    assert text_shape("").sections == ()


def test_a_long_heading_is_read_in_one_pass() -> None:
    assert text_shape("# " + "# " * 200_000 + "x").sections[0].endswith("x")


def test_the_words_of_an_answer_do_not_change_its_shape() -> None:
    one = json_shape({"total": 1, "items": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]})
    other = json_shape({"items": [{"name": "c", "id": 9.5}], "total": 0})

    assert one == other
    assert json_shape({"total": "1"}) != json_shape({"total": 1})
    assert json_shape([1, "a"]) == json_shape(["b", 2, 3]) != json_shape([1])


@settings(max_examples=60)
@given(values)
def test_every_json_value_has_a_shape_with_a_hash(value: Any) -> None:
    try:
        shape = json_shape(value)
    except NotCanonical:
        return

    assert json_shape(value) == shape
    assert len(output_shape_hash(shape)) == 64


DIFF = """\
diff --git a/foo.py b/foo.py
--- a/foo.py
+++ b/foo.py
@@ -1,3 +1,4 @@
 import os
--- a comment that looks like a header
+import sys
++++ another
 print(os)
@@ -10 +11,0 @@ def f():
-    pass
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-x
\\ No newline at end of file
"""


def test_a_patchs_shape_is_its_files_and_where_they_change() -> None:
    foo, gone = code_patch_shape(DIFF).files

    assert (foo.path, gone.path) == ("foo.py", "gone.txt")
    assert foo.changes == (
        ShapeChange(kind=ChangeKind.REPLACE, at_line=2, lines_added=2, lines_removed=1),
        ShapeChange(kind=ChangeKind.REMOVE, at_line=11, lines_removed=1),
    )
    assert gone.changes == (ShapeChange(kind=ChangeKind.REMOVE, at_line=0, lines_removed=1),)


@settings(max_examples=60)
@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_every_changed_line_of_a_diff_is_counted(old: list[str], new: list[str]) -> None:
    diff = list(unified_diff(old, new, "a/f", "b/f", lineterm=""))
    changes = [change for file in code_patch_shape("\n".join(diff)).files for change in file.changes]

    assert sum(change.lines_added for change in changes) == sum(line[0] == "+" for line in diff[2:])
    assert sum(change.lines_removed for change in changes) == sum(line[0] == "-" for line in diff[2:])


@pytest.mark.parametrize(
    "text",
    ["", "@@ -1,999999999 +1,999999999 @@\n+x", "+++ ", "--- \n+++ \n@@ -1 +1 @@\n+a\n-b", "+++ /dev/null"],
)
def test_a_patch_that_is_none_still_has_a_shape(text: str) -> None:
    assert len(output_shape_hash(code_patch_shape(text))) == 64
