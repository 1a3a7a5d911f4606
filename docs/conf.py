"""Sphinx settings: the Markdown files in this folder, as HTML, with nothing fetched from elsewhere."""

project = "Standfast"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Standfast"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
# Links to files outside docs/ are checked by tests/house/test_papers.py.
suppress_warnings = ["myst.xref_missing"]
