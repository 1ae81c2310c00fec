"""Reports: one page, well formed, self-contained, and safe to fill with any text."""

import os
import re
from collections import Counter
from enum import Enum
from html.parser import HTMLParser

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib.figure import Figure

from multicause.report import Section, write_report

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Page(HTMLParser):
    """Collects tags, attributes and text, and fails on a tag that closes another than the open one."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], Counter(), [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def values(self, name):
        return [value for key, value in self.attributes if key == name]


def figure_with_an_image_and_a_line(seed):
    rng = np.random.default_rng(seed)
    figure = Figure(figsize=(5, 2.5))
    left, right = figure.subplots(1, 2)
    left.imshow(rng.normal(size=(8, 8)))
    right.plot(rng.normal(size=20), "o-", label="a < b & c")
    right.legend()
    return figure


def page_of(tmp_path, *sections, title="A report"):
    write_report(tmp_path / "report.html", title, sections)
    return (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    sections = (
        Section("Free energy", "It rises.", figure=figure_with_an_image_and_a_line(0)),
        Section("Fields", figure=figure_with_an_image_and_a_line(1), table=[("n_iter_", 12)]),
    )
    return page_of(tmp_path_factory.mktemp("report"), *sections)


def test_the_page_is_well_formed_and_holds_every_part(html):
    page = Page(html)
    assert html.startswith("<!DOCTYPE html>")
    assert (page.tags["svg"], page.tags["section"], page.tags["h1"], page.tags["h2"]) == (2, 2, 1, 2)
    assert page.tags["table"] == 1
    assert "It rises." in page.text


def test_no_two_elements_of_the_page_share_an_id(html):
    ids = Page(html).values("id")
    assert len(ids) > 20
    assert [name for name, count in Counter(ids).items() if count > 1] == []


def test_every_reference_inside_a_figure_finds_its_element(html):
    page = Page(html)
    ids = set(page.values("id"))
    links = [link for link in page.values("xlink:href") + page.values("href") if link.startswith("#")]
    clips = re.findall(r"url\(#([^)]+)\)", html)
    assert links
    assert clips
    assert {link[1:] for link in links} | set(clips) <= ids


def test_the_page_loads_nothing_from_elsewhere(html):
    page = Page(html)
    assert not {"script", "link", "iframe", "object"} & page.tags.keys()
    loaded = page.values("src") + page.values("href") + page.values("xlink:href")
    assert loaded
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in loaded)
    assert "@import" not in html
    assert re.search(r"url\((?!#)", html) is None


def test_no_xml_declaration_or_second_doctype_is_left_in_the_page(html):
    assert "<?xml" not in html
    assert html.count("<!DOCTYPE") == 1


def test_the_page_has_a_dark_side(html):
    assert "prefers-color-scheme: dark" in html


def test_all_text_is_escaped(tmp_path):
    evil = "<script>alert('x')</script> & \"q\""
    page = Page(page_of(tmp_path, Section(evil, evil, Figure(), [(evil, evil)]), title=evil))
    assert page.tags["script"] == 0
    assert page.text.count(evil) == 6  # title, h1, h2, paragraph, name, value
    assert page.values("aria-label") == [evil]


def test_an_empty_line_starts_a_paragraph(tmp_path):
    page = Page(page_of(tmp_path, Section("A", "one\nstill one\n\n \ntwo\n")))
    assert page.tags["p"] == 2
    assert {"one\nstill one", "two"} <= set(page.text)


def test_values_are_shown_for_people(tmp_path):
    class Outcome(Enum):
        DONE = "it converged"

    table = [("a", 0.1 + 0.2), ("b", np.float32(1 / 3)), ("c", 1234567), ("d", True), ("e", Outcome.DONE), ("f", None)]
    html = page_of(tmp_path, Section("A", table=table))
    assert re.findall("<td>(.*?)</td>", html) == ["0.3", "0.333333", "1234567", "True", "it converged", "None"]


def test_a_section_may_be_a_heading_only(tmp_path):
    page = Page(page_of(tmp_path, Section("Alone")))
    assert (page.tags["p"], page.tags["table"], page.tags["figure"]) == (0, 0, 0)
    assert "Alone" in page.text


def test_equal_input_gives_equal_bytes(tmp_path):
    pages = [page_of(tmp_path, Section("A", figure=figure_with_an_image_and_a_line(0))) for _ in range(2)]
    assert pages[0] == pages[1]


def test_drawing_leaves_the_settings_of_matplotlib_alone(tmp_path):
    before = dict(matplotlib.rcParams)
    page_of(tmp_path, Section("A", figure=figure_with_an_image_and_a_line(0)))
    assert dict(matplotlib.rcParams) == before


def test_something_else_than_a_section_is_refused_and_the_old_report_stays(tmp_path):
    (tmp_path / "report.html").write_text("old")
    with pytest.raises(TypeError, match=r"sections must hold Section objects, but number 2 is of type 'str'. Wrap it"):
        write_report(tmp_path / "report.html", "A", [Section("A"), "text"])
    assert (tmp_path / "report.html").read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder '.*nowhere' does not exist"):
        write_report(tmp_path / "nowhere" / "report.html", "A", [])
