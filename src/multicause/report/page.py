"""One HTML page that needs nothing else: text, tables, code, figures as inline SVG, and tiles."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from html import escape
from importlib import resources
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from multicause.files import atomic_write
from multicause.report.tiles import Tiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Section", "write_report"]

SHORTEST_WITH_CONTENTS = 4  # sections of a page that begins with a table of contents
SMALLEST = 0.74  # of its size, to which a figure is shrunk on a telephone: what is larger then is scrolled
_INK, _PAPER = "currentColor", "var(--paper)"


@dataclass(frozen=True)
class Section:
    """A part of a report. What is given is shown in the order text, table, code, figure, tiles, list.

    Parameters
    ----------
    heading : str
        The title of the section.
    text : str, default=""
        Plain text; an empty line starts a new paragraph.
    figure : matplotlib.figure.Figure, optional
        Drawn as SVG; its black and white become the page's ink and paper, in the light page and in the dark one.
    table : sequence of (name, value) pairs, or of longer rows of which the first is the header, optional
        Numbers are shown to six significant digits, members of an Enum by their value.
    code : str, default=""
        Lines to be copied.
    tiles : sequence of Tiles, default=()
        Small pictures side by side.
    items : sequence of str, default=()
        A list.
    """

    heading: str
    text: str = ""
    figure: Figure | None = None
    table: Sequence[Sequence[Any]] | None = None
    code: str = ""
    tiles: Sequence[Tiles] = ()
    items: Sequence[str] = ()


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
    listed = list(sections)
    parts = [_section_html(number, section) for number, section in enumerate(listed, start=1)]
    style = resources.files("multicause.report").joinpath("page.css").read_text(encoding="utf-8")
    page = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n{_contents_html(listed)}"
        f"<main>\n{''.join(parts)}</main>\n</body>\n</html>\n"
    )
    atomic_write(path, page.encode("utf-8", "replace"))  # names of files may be no text


def _contents_html(sections: Sequence[Section]) -> str:
    if len(sections) < SHORTEST_WITH_CONTENTS:
        return ""
    lines = (
        f'<li><a href="#section-{number}">{escape(section.heading)}</a></li>\n'
        for number, section in enumerate(sections, start=1)
    )
    return f'<nav aria-label="Contents">\n<ul>\n{"".join(lines)}</ul>\n</nav>\n'


def _section_html(number: int, section: Section) -> str:
    if not isinstance(section, Section):
        raise TypeError(
            f"sections must hold Section objects, but number {number} is of type {type(section).__name__!r}. "
            "Wrap it: Section(heading, text=..., figure=..., table=...)."
        )
    parts = [f"<h2>{escape(section.heading)}</h2>\n", _text_html(section.text)]
    if section.table is not None:
        parts.append(_table_html(section.table))
    if section.code:
        parts.append(f'<pre class="code" tabindex="0">{escape(section.code)}</pre>\n')
    if section.figure is not None:
        label = escape(section.heading)
        svg = _svg(section.figure, f"figure{number}-")
        parts.append(f'<figure class="chart" role="img" aria-label="{label}">\n{svg}</figure>\n')
    parts += [tiles.html(f"after-{number}-{i}") for i, tiles in enumerate(section.tiles)]
    if section.items:
        lines = "".join(f"<li>{escape(item)}</li>\n" for item in section.items)
        parts.append(f'<ul class="advice">\n{lines}</ul>\n')
    return f'<section id="section-{number}">\n{"".join(parts)}</section>\n'


def _text_html(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "".join(f"<p>{escape(paragraph)}</p>\n" for paragraph in paragraphs if paragraph)


def _table_html(table: Sequence[Sequence[Any]]) -> str:
    """Pairs are a name and its value; longer rows begin with a header."""
    rows, head = list(table), ""
    if rows and len(rows[0]) > 2:
        cells = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in rows.pop(0))
        head = f"<thead>\n<tr>{cells}</tr>\n</thead>\n"
    lines = (
        f'<tr><th scope="row">{escape(str(name))}</th>'
        + "".join(f"<td>{escape(_shown(value))}</td>" for value in values)
        + "</tr>\n"
        for name, *values in rows
    )
    body = f"<table>\n{head}<tbody>\n{''.join(lines)}</tbody>\n</table>\n"
    return f'<div class="wide">\n{body}</div>\n' if head else body


def _shown(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    return f"{value:.6g}" if isinstance(value, Real) and not isinstance(value, Integral) else str(value)


def _svg(figure: Figure, prefix: str) -> str:
    """Draw a figure as an SVG element whose ids all start with `prefix`: ids are shared by the whole HTML page."""
    import matplotlib

    buffer = io.StringIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": prefix, "svg.fonttype": "path", "svg.image_inline": True}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", facecolor="none", metadata=no_metadata)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]  # without the XML declaration and the doctype
    return _themed(re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}", svg))


def _themed(svg: str) -> str:
    """Black lines and letters in the page's ink, white areas in the colour of its paper."""
    svg = re.sub(r"<style type=.*?</style>", "", svg, flags=re.DOTALL)  # would hold for the whole page
    svg = re.sub(r"(stroke|fill): #000000", rf"\1: {_INK}", svg)
    svg = re.sub(r"(stroke|fill): #ffffff", rf"\1: {_PAPER}", svg)
    width = float(re.search(r'width="([\d.]+)pt"', svg)[1])  # type: ignore[index]
    kept = f'<svg style="min-width: {SMALLEST * width:.0f}pt" stroke-linejoin="round" stroke-linecap="butt" '
    return svg.replace("<svg ", kept, 1)
