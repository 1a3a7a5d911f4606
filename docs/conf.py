"""Sphinx settings: builds the Markdown files of this folder as HTML. Nothing is downloaded."""

from sphinx.application import Sphinx

project = "Standfast"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 80
html_theme = "furo"
# The default of the theme underlines the names of modules in dark code, as if they were links.
pygments_dark_style = "github-dark"
html_title = "Standfast"
html_show_copyright = False
html_show_sphinx = False
exclude_patterns = ["_build"]
myst_heading_anchors = 3
# Links to files outside docs/ are checked by tests/project/test_docs.py.
suppress_warnings = ["myst.xref_missing"]


def _mark_examples(
    _app: object, _what: str, _name: str, _obj: object, _options: object, lines: list[str]
) -> None:
    """Indented blocks of a docstring are code."""
    for index in range(len(lines) - 1, 1, -1):
        before, blank, line = lines[index - 2 : index + 1]
        if line.startswith("    ") and not blank and not before.startswith(" ") and not before.endswith("::"):
            lines[index:index] = ["::", ""]


def setup(app: Sphinx) -> None:
    """Called by Sphinx. The priority puts examples before the sections of arguments are read."""
    app.connect("autodoc-process-docstring", _mark_examples, priority=400)
