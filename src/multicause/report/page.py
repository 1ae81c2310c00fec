"""One HTML page that needs nothing else: text, tables of values, and figures as inline SVG."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from html import escape
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from multicause.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Section", "write_report"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2129; --soft: #5b6472; --paper: #fff; --line: #dde1e7; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ec; --soft: #a3abb8; --paper: #15181d; --line: #343a44; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 56rem; background: var(--paper); color: var(--ink);
       font: 1rem/1.6 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.9rem; line-height: 1.25; margin: 0 0 1.5rem; }
h2 { font-size: 1.25rem; margin: 0 0 .75rem; }
section { padding: 1.5rem 0; border-top: 1px solid var(--line); }
p { margin: 0 0 1rem; max-width: 42rem; white-space: pre-line; }
table { border-collapse: collapse; margin: 0 0 1rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem 1.5rem .35rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { font-weight: 500; color: var(--soft); }
figure { margin: 0 0 1rem; padding: .75rem; overflow-x: auto; background: #fff; border: 1px solid var(--line);
         border-radius: .5rem; }
figure svg { display: block; margin: 0 auto; max-width: 100%; height: auto; }
@media print { section { break-inside: avoid; } }
"""


@dataclass(frozen=True)
class Section:
    """A part of a report. What is given is shown in the order text, table, figure.

    Parameters
    ----------
    heading : str
        The title of the section.
    text : str, default=""
        Plain text; an empty line starts a new paragraph.
    figure : matplotlib.figure.Figure, optional
        Drawn as SVG on white, in the light page and in the dark one.
    table : sequence of (name, value) pairs, optional
        Numbers are shown to six significant digits, members of an Enum by their value.
    """

    heading: str
    text: str = ""
    figure: Figure | None = None
    table: Sequence[tuple[str, Any]] | None = None


def write_report(path: str | os.PathLike[str], title: str, sections: Iterable[Section]) -> None:
    """Write a report as one HTML page that loads nothing from elsewhere; equal input gives equal bytes.

    Parameters
    ----------
    path : str or path-like
        The file to write; its folder must exist. An older report is replaced in one step.
    title : str
        The title of the page.
    sections : iterable of Section
        The parts of the page, in order.

    Raises
    ------
    TypeError
        When one of `sections` is not a `Section`.
    """
    parts = [_section_html(number, section) for number, section in enumerate(sections, start=1)]
    page = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n{''.join(parts)}</body>\n</html>\n"
    )
    atomic_write(path, page.encode("utf-8"))


def _section_html(number: int, section: Section) -> str:
    if not isinstance(section, Section):
        raise TypeError(
            f"sections must hold Section objects, but number {number} is of type {type(section).__name__!r}. "
            "Wrap it: Section(heading, text=..., figure=..., table=...)."
        )
    parts = [f"<h2>{escape(section.heading)}</h2>\n", _text_html(section.text)]
    if section.table is not None:
        parts.append(_table_html(section.table))
    if section.figure is not None:
        label = escape(section.heading)
        parts.append(f'<figure role="img" aria-label="{label}">\n{_svg(section.figure, f"figure{number}-")}</figure>\n')
    return f"<section>\n{''.join(parts)}</section>\n"


def _text_html(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "".join(f"<p>{escape(paragraph)}</p>\n" for paragraph in paragraphs if paragraph)


def _table_html(table: Sequence[tuple[str, Any]]) -> str:
    rows = (
        f'<tr><th scope="row">{escape(str(name))}</th><td>{escape(_shown(value))}</td></tr>\n' for name, value in table
    )
    return f"<table>\n<tbody>\n{''.join(rows)}</tbody>\n</table>\n"


def _shown(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    return f"{value:.6g}" if isinstance(value, Real) and not isinstance(value, Integral) else str(value)


def _svg(figure: Figure, prefix: str) -> str:
    """Draw a figure as an SVG element whose ids all start with `prefix`: ids are shared by the whole HTML page."""
    import matplotlib

    buffer = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": prefix, "svg.fonttype": "path", "svg.image_inline": True}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", facecolor="white", metadata=no_metadata)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]  # without the XML declaration and the doctype
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}", svg)
