"""Sphinx: the pages of this repository as a site. `make docs` builds it into build/docs.

The source folder is the root of the repository, so that a relative link between two pages works here and on a forge.
"""

import gc
import re
from importlib.metadata import version as installed_version

gc.disable()  # a build ends soon, and would spend a fifth of its time on the search for garbage

project = "supquant"
author = "the authors of supquant"
project_copyright = author
version = release = installed_version("supquant")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
exclude_patterns = [
    ".*",
    "benchmarks",
    "build",
    "docs/results",
    "examples",
    "lab",
    "native",
    "src",
    "tests",
]

myst_heading_anchors = 3

autosummary_generate = False
autodoc_typehints = "none"  # docstrings have the types, in words
autodoc_default_options = {"members": True, "inherited-members": True, "member-order": "groupwise"}
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
toc_object_entries = False  # the summaries of the reference list its names
default_role = "code"  # names in docstrings stand in single backticks

html_theme = "furo"
html_title = f"supquant {release}"
html_extra_path = ["site"]  # index.html at the root leads to docs/index.html
html_copy_source = False
html_show_sphinx = False


def setup(app):
    """Connect the functions below."""
    app.connect("autodoc-skip-member", skip_members_of_others)
    app.connect("source-read", offer_results)


def skip_members_of_others(app, what, name, obj, skip, options):
    """Leave out what estimators inherit from scikit-learn."""
    return (
        True
        if str(getattr(obj, "__module__", project)).partition(".")[0] not in (project, "supquant_lab")
        else None
    )


def offer_results(app, docname, source):
    """Let links to the report, which is no page of the site, offer the file itself."""
    source[0] = re.sub(r"\[([^]]+)\]\((\S*results/README\.md)\)", r"{download}`\1 <\2>`", source[0])
