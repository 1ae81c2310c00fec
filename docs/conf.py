"""Sphinx configuration; `make docs` builds the pages without network, and fails at any warning."""

import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

project = "multicause"
author = "The multicause developers"
copyright = author
release = version = version_of("multicause")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the sorting function of the gallery cannot be pickled, which costs nothing

myst_enable_extensions = ["colon_fence", "attrs_block", "attrs_inline"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_inherit_docstrings = True
numpydoc_show_class_members = False  # the templates list them, with their arguments
numpydoc_xref_param_type = False
default_role = "py:obj"

html_theme = "pydata_sphinx_theme"
html_title = "multicause"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
ALONE = ("index", "which_model", "preselection", "performance", "own_model", "glossary", "guide", "more")
html_sidebars = {page: [] for page in (*ALONE, "from_laptop_to_cluster", "project/*", "results/*")}
html_theme_options = {
    "logo": {"text": "multicause"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
copybutton_exclude = ".linenos, .gp, .go"

IN_ORDER = (
    "denoise_a_photograph", "bars_with_every_model", "parts_of_digits", "fill_missing_pixels", "voices_apart",
    "eeg_like_sources", "counts_of_spikes", "natural_image_filters", "objects_in_scenes", "model_selection", "noisy_or",
    "larger_than_memory", "cluster_in_a_notebook",
)  # fmt: skip


def gallery_order(filename: str) -> tuple[int, str]:
    """Those that people look for first; new ones at the end."""
    stem = Path(filename).stem
    return (IN_ORDER.index(stem) if stem in IN_ORDER else len(IN_ORDER)), stem


sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": gallery_order,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "min_reported_time": 0,
    "abort_on_example_error": True,
    "reset_modules": ("matplotlib",),
    "matplotlib_animations": False,
}

BELOW = "# Results\n\n```{toctree}\n:hidden:\n\nNOTES\nEARLIER\n```\n"
COPIES = {  # pages that have their place elsewhere in the repository, and what is different here
    "results/index.md": ("benchmarks/RESULTS.md", {"# Results\n": BELOW}),
    "results/NOTES.md": ("benchmarks/NOTES.md", {}),
    "results/EARLIER.md": ("benchmarks/EARLIER.md", {}),
    "project/CHANGELOG.md": ("CHANGELOG.md", {}),
    "project/CONTRIBUTING.md": ("CONTRIBUTING.md", {"(docs/glossary.md": "(../glossary.md"}),
}


def copy_pages() -> None:
    for target, (source, links) in COPIES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        for passage, instead in links.items():
            text = text.replace(passage, instead)
        page = HERE / target
        page.parent.mkdir(exist_ok=True)
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def draw_figures() -> None:
    import figures

    figures.draw_missing(HERE / "_figures")


def equations_as_written(app, what, name, obj, options, lines: list[str]) -> None:
    """Docstrings are written to be read in the source: indented passages are equations, `n_iter_` and |s| are plain."""
    out: list[str] = []
    in_text = in_equation = False
    for number, line in enumerate(lines):
        in_text = (number == 0 or in_text) and not re.fullmatch(r"-{3,}", line.strip())  # up to the first section
        indented = in_text and line.startswith("    ") and number > 0
        if indented and not in_equation:
            out += [".. code-block:: none", "   :class: equation", ""]
        in_equation = indented or (in_equation and not line.strip())
        out.append(line if in_equation or line.lstrip().startswith((">>>", "...")) else _plain(line))
    lines[:] = out


def _plain(line: str) -> str:
    """Underscores at the end of words, and bars, mean nothing to reStructuredText; names of arguments stay."""
    name, colon, rest = line.partition(" : ")
    if colon and name.isidentifier():
        return name + colon + _plain(rest)
    if line.isidentifier():
        return line
    parts = re.split(r"(``.*?``|`[^`]*`)", line)
    return "".join(p if p.startswith("`") else re.sub(r"(?<=\w)_(?!\w)|\|", r"\\\g<0>", p) for p in parts)


def setup(app) -> None:
    copy_pages()
    draw_figures()
    app.connect("autodoc-process-docstring", equations_as_written, priority=400)  # before numpydoc
