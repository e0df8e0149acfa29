"""Configuration of the documentation: Sphinx with MyST and Furo, built strictly."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent / "proto"), str(Path(__file__).parent.parent)]

project = "kubelet-emu"
author = "the kubelet-emu authors"
release = "0.1.0"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "reference/_*.md"]
html_theme = "furo"
html_title = "kubelet-emu"
html_copy_source = False
html_show_sphinx = False
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
# Types of the standard library and of attrs are named, not linked: the build needs no network.
nitpicky = False
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
