"""Sphinx's settings: pages and notebooks as they lie in the repository, the reference from the docstrings. `make docs`."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
os.environ.setdefault("MPLBACKEND", "Agg")

import docstrings  # noqa: E402

project, author = "bayesprune", "The bayesprune developers"
copyright = author
html_title = "bayesprune"
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "myst_nb", "mathml"]

# The source folder is the repository's root, so that links between pages hold here and where the repository is browsed.
root_doc = "docs/site/index"
PROJECT = ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
include_patterns = ["docs/**", "notebooks/*.ipynb", "benchmarks/*.md", "examples/*.py", *PROJECT]
exclude_patterns = ["**/_*", "**/.ipynb_checkpoints"]

nb_execution_mode = "off"  # shown as committed
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4
# A heading may skip a level on a page that is read by itself; code of files that are not pages opens as a download.
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type"]

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_math_renderer = "mathml"

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "none"  # the text says shapes and units
napoleon_custom_sections = [("Source", "notes"), ("Sites", "notes")]


def setup(app: object) -> None:
    """Sphinx's hook."""
    app.connect("autodoc-process-docstring", docstrings.process, priority=400)  # type: ignore[attr-defined]
    app.connect("autodoc-skip-member", docstrings.foreign)  # type: ignore[attr-defined]
