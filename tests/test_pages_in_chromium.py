"""Pages as a browser shows them: nothing on the console, pictures there, in the light and the dark, wide and narrow."""

import numpy as np
import pytest

from chromium import Chromium
from multicause import ETNMF, GSC, InvECA, LinCA, TruncatedGaussianMixture, UPoE
from multicause.datasets import make_bars, make_scenes, shape_objects
from multicause.report import Origin, write_model_report

from command_line import succeed

SMALLEST_LETTERS = 11.0  # pixels


def _bars(tmp_path):
    bars = make_bars(150, 4, random_state=1000)
    model = LinCA(8, max_iter=5, tol=1e-9, random_state=0).fit(bars.X)
    origin = Origin("multicause fit bars.csv", "bars.csv", 0.2, 0, "bars.model")
    write_model_report(tmp_path / "page.html", model, bars.X, held_out=bars.X[:50], origin=origin)


def _gaps(tmp_path):
    X = make_bars(150, 3, signed=True, random_state=1000).X
    X[::7, 2] = np.nan
    write_model_report(tmp_path / "page.html", GSC(6, max_iter=5, tol=1e-9, random_state=0).fit(X), X)


def _sources(tmp_path):
    rng = np.random.default_rng(1000)
    model = UPoE(random_state=0).fit(rng.laplace(size=(400, 4)) @ rng.normal(size=(4, 4)))
    model.feature_names_in_ = np.array(["Fp1", "Cz", "a rather long name of a channel", "<O1>"], dtype=object)
    write_model_report(tmp_path / "page.html", model, rng.normal(size=(60, 4)))


def _curves(tmp_path):
    X = np.abs(np.random.default_rng(1000).normal(size=(60, 50)))
    write_model_report(tmp_path / "page.html", ETNMF(3, max_iter=3, tol=1e-9, random_state=0).fit(X), X)


def _clusters(tmp_path):
    X = np.random.default_rng(1000).normal(size=(90, 16))
    write_model_report(tmp_path / "page.html", TruncatedGaussianMixture(3, random_state=0).fit(X), X)


def _scenes(tmp_path):
    scenes = make_scenes(40, shape_objects(2, 4), image_shape=(9, 9), probability=0.5, random_state=1000)
    model = InvECA(2, (4, 4), max_iter=3, random_state=0).fit(scenes.X)
    write_model_report(tmp_path / "page.html", model, scenes.X)


PAGES = {
    "bars": (_bars, "image"), "gaps": (_gaps, "image"), "sources": (_sources, "bars"), "curves": (_curves, "wave"),
    "clusters": (_clusters, "image"), "scenes": (_scenes, "image"),
}  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Chromium(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_in_the_light_and_the_dark_wide_and_narrow(browser, tmp_path, name):
    write, kind = PAGES[name]
    write(tmp_path)
    page = tmp_path / "page.html"
    assert page.stat().st_size < 3e6
    browser.messages.clear()
    for width in (1280, 390):
        for scheme in ("light", "dark"):
            browser.open(page, width, scheme)
            assert browser.messages == []
            assert browser.ask("document.documentElement.scrollWidth") <= width
            check_pictures(browser, kind)
            check_legible(browser)


def check_pictures(browser, kind):
    tiles = "[...document.querySelectorAll('.tile img, .tile svg, .tile .features')]"
    assert browser.ask(f"{tiles}.length") >= 6
    assert browser.ask(f"document.querySelectorAll('.tiles.{kind} .tile').length") >= 4
    assert browser.ask("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    sizes = browser.ask(f"{tiles}.map(t => t.getBoundingClientRect()).map(r => Math.min(r.width, r.height))")
    assert min(sizes) > 20
    assert browser.ask("[...document.querySelectorAll('.chart svg')].every(s => s.getBoundingClientRect().height > 80)")


CONTRAST = """(() => {
  const light = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
      .map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
      return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2] };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const of = (e, p) => { const l = light(getComputedStyle(e)[p]);
      return (Math.max(l, paper) + 0.05) / (Math.min(l, paper) + 0.05) };
  const text = [...document.querySelectorAll('p, td, th, figcaption, h2, a, .name, .value')].map(e => of(e, 'color'));
  const ink = [...document.querySelectorAll('.chart svg')].map(e => of(e, 'fill'));
  return Math.min(...text, ...ink) })()"""


def check_legible(browser):
    """Letters large enough and in contrast with the paper, in text and in charts."""
    texts = "[...document.querySelectorAll('p, td, th, figcaption, .name')]"
    assert browser.ask(f"Math.min(...{texts}.map(e => parseFloat(getComputedStyle(e).fontSize)))") >= SMALLEST_LETTERS
    scale = "s => s.getBoundingClientRect().width / s.viewBox.baseVal.width"
    shrunk = browser.ask(f"[...document.querySelectorAll('.chart svg')].map({scale})")
    assert 12.0 * min(shrunk) >= SMALLEST_LETTERS  # charts are drawn with letters of 12 points
    assert browser.ask(CONTRAST) >= 4.5


def test_details_are_shown_on_focus_and_the_keyboard_can_skip_them(browser, tmp_path):
    _bars(tmp_path)
    browser.open(tmp_path / "page.html")
    shown = "getComputedStyle(document.querySelector('.tile .tip')).display"
    assert browser.ask(shown) == "none"
    browser.ask("document.querySelector('.skip').focus()")
    browser.press("Tab")
    assert browser.ask("document.activeElement.className") == "tile"
    assert browser.ask(shown) == "block"
    assert "π = " in browser.ask("document.activeElement.textContent")
    target = browser.ask("document.querySelector('.skip').getAttribute('href')")
    assert browser.ask(f"document.querySelector('{target}') !== null")
    browser.press("Tab", times=30)  # eight tiles later: on to what follows
    assert browser.ask("document.activeElement.className") != "tile"


def test_a_page_can_be_printed_with_what_is_otherwise_shown_on_hover(browser, tmp_path):
    _bars(tmp_path)
    browser.open(tmp_path / "page.html", scheme="dark", media="print")
    assert browser.ask("getComputedStyle(document.querySelector('.tile .tip')).display") == "block"
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.pdf().startswith(b"%PDF")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_pages_of_the_command_line_are_whole(browser, folder):
    for seed, name in ((1000, "data.npy"), (1001, "new.npy")):
        np.save(name, make_bars(100, 3, random_state=seed).X)
    succeed("fit", "data.npy", "-n", 4, "--iterations", 3, "-o", "m", "--report", "fit.html", "--hold-out", 0.2)
    succeed("report", "m", "--data", "data.npy", "--held-out", "new.npy", "-o", "report.html")
    for name in ("fit.html", "report.html"):
        browser.messages.clear()
        browser.open(folder / name, 390)
        assert browser.messages == []
        check_pictures(browser, "image")
