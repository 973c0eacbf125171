"""Sphinx configuration of the guide: `make docs`, which needs no network."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent)]
os.environ.setdefault("MPLBACKEND", "agg")

import implicit_bias  # noqa: E402

project = "implicit_bias"
author = "The implicit_bias developers"
copyright = author
version = release = implicit_bias.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx-mathjax-offline",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "project_pages",
    "status_table",
]
exclude_patterns = ["_build", "gallery", "errata"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]
default_role = "py:obj"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
# Methods that scikit-learn adds to every estimator: metadata routing and output containers.
METHODS = ("fit", "score", "predict", "decision_function", "transform")
autodoc_default_options = {
    "exclude-members": ",".join(
        ["get_metadata_routing", "set_output", *(f"set_{method}_request" for method in METHODS)]
    )
}
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "backreferences_dir": "api/examples",
    "doc_module": ("implicit_bias",),
    "subsection_order": [
        f"gallery/{folder}" for folder in ("problems", "atlas", "networks", "classifiers", "extensions")
    ],
    "within_subsection_order": "FileNameSortKey",
    "thumbnail_size": (480, 336),
    "reset_modules": ("matplotlib", "gallery_style.reset"),
    "plot_gallery": "True",
    "only_warn_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 600,
    "remove_config_comments": True,
}

html_theme = "furo"
html_title = f"implicit_bias {release}"
html_static_path = ["_static"]
html_favicon = "_static/icon.svg"
html_css_files = ["guide.css"]
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0072B2", "color-brand-content": "#0072B2"},
    "dark_css_variables": {"color-brand-primary": "#56B4E9", "color-brand-content": "#56B4E9"},
}
