"""Sphinx settings: builds the Markdown files of this folder as HTML. Nothing is downloaded."""

project = "Standfast"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Standfast"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
# Links to files outside docs/ are checked by tests/project/test_docs.py.
suppress_warnings = ["myst.xref_missing"]
