"""Pages in a browser: nothing overflows and no text is below 12 px at the widths of a phone, a tablet and a desk."""

import shutil

import pytest

import resnetx
from resnetx import record
from tests.reporting.checked_fleet import all_reduce
from tests.reporting.test_check import fleet, made_check

pytestmark = pytest.mark.slow  # starts a browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (390, 1024, 1600)
HEIGHT = 300  # little is painted
LEAST_TEXT_PX = 11.85  # 12 but for rounding
# The smallest text that is shown, with its size as it is seen: those of drawings are as large as these.
SMALLEST = """() => {
    let found = [Infinity, ''];
    const factors = new Map(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const holder = texts.currentNode.parentElement, drawing = holder.closest('svg');
        if (!texts.currentNode.data.trim() || holder.closest('title, style') || !holder.checkVisibility()) continue;
        if (drawing && !factors.has(drawing)) factors.set(drawing, drawing.getScreenCTM().a);
        const factor = drawing ? factors.get(drawing) : 1;
        const size = parseFloat(getComputedStyle(holder).fontSize) * factor;
        if (size > 0 && size < found[0]) found = [size, texts.currentNode.data.trim()];
    }
    return found;
}"""
# Drawings that one would have to move sideways, by their titles.
SCROLLED = """[...document.querySelectorAll('figure .scroll:has(svg)')].filter(
    part => part.checkVisibility() && part.scrollWidth > part.clientWidth + 1).map(
    part => part.closest('figure').querySelector('h3').innerText)"""
LUMA = "(getComputedStyle(document.body).backgroundColor.match(/\\d+/g) || []).slice(0, 3).map(Number)"
# Fills of drawings that are white although the page is dark.
WHITE = """[...document.querySelectorAll('svg rect, svg path')].filter(
    mark => mark.checkVisibility() && getComputedStyle(mark).fill === 'rgb(255, 255, 255)').length"""
PAIR = {"systems": ["dgx1-p100", "gx8"]}
ALEXNET = {"model": "alexnet", "batch_size": 256}
TRACE, TRUTH = "results/lab/training/trace", "results/lab/truth"


def checked(out):
    fleet_of_four = [*fleet(1e-3, 1e-3, 1e-3, 2e-3), all_reduce("a b", 2e-3), all_reduce("c d", 5e-3)]
    record.write(out / "record" / "check.json", made_check(fleet_of_four))
    resnetx.report(str(out / "record"), out=str(out))


PAGES = {
    "study": lambda out: resnetx.report("results/cpu-2core/quickstart", out=str(out)),
    "study of two systems": lambda out: resnetx.report(f"{TRUTH}/study", out=str(out)),
    "comparison": lambda out: resnetx.compare(
        **PAIR, model=["alexnet", "googlenet"], batch_size=256, gpus=[1, 2, 8], out=str(out)
    ),
    "prediction": lambda out: resnetx.predict(**PAIR, **ALEXNET, gpus=[1, 8], timeline=True, out=str(out)),
    "accuracy": lambda out: resnetx.compare(f"{TRUTH}/prediction", f"{TRUTH}/study", out=str(out)),
    "topology": lambda out: resnetx.topology(systems=["dgx1-p100", "gx8", "dgx-h100"], out=str(out)),
    "rings": lambda out: resnetx.topology(systems="dgx1-v100", collective="allreduce", size="64MiB", out=str(out)),
    "describe": lambda out: resnetx.describe(study="paper", out=str(out)),
    "intensity": lambda out: resnetx.describe(intensity=100, gpus=8, out=str(out)),
    "steering": lambda out: resnetx.steer(systems="dgx1-v100", **ALEXNET, pattern="replicated", out=str(out)),
    "run": lambda out: resnetx.report("results/h100/train", out=str(out)),
    "two studies": lambda out: resnetx.compare("results/lab/paper/study", f"{TRUTH}/study", out=str(out)),
    "explained": lambda out: resnetx.explain("results/cpu-2core/quickstart", out=str(out)),
    "many benches": lambda out: resnetx.report("results/cpu-2core/bench", out=str(out)),
    "reproduce": lambda out: resnetx.reproduce("li2019", out=str(out)),
    "trace": lambda out: resnetx.report(TRACE, out=str(out)),
    "bench": lambda out: resnetx.report("results/lab/links", out=str(out)),
    "check": checked,
    "mixture": lambda out: resnetx.report(TRACE, f"{TRUTH}/prediction", "results/lab/degraded", "gx8", out=str(out)),
}


@pytest.fixture(scope="module")
def tab():
    """A page of a browser, which shows one page of ours after the other."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (extra `dev`)")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield started.new_page()
        started.close()


@pytest.mark.parametrize("kind", PAGES)
def test_nothing_overflows_and_no_text_is_small(tab, kind, tmp_path):
    PAGES[kind](tmp_path)
    tab.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})
    tab.goto((tmp_path / "index.html").as_uri())
    tab.add_style_tag(content="figure { content-visibility: visible }")  # laid out once, not at each question
    tab.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
    for width in WIDTHS:
        tab.emulate_media(color_scheme="light")
        tab.set_viewport_size({"width": width, "height": HEIGHT})
        assert sum(tab.evaluate(LUMA)) >= 3 * 128
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        size, words = tab.evaluate(SMALLEST)
        assert size >= LEAST_TEXT_PX, (width, words)
        assert tab.evaluate(SCROLLED) == [], width
        if width in (WIDTHS[0], WIDTHS[-1]):  # with the drawings of a phone, and all others
            tab.emulate_media(color_scheme="dark")  # which changes colours alone
            assert sum(tab.evaluate(LUMA)) < 3 * 128
            assert not tab.evaluate(WHITE), width
    assert tab.locator("figure svg title").count() > 0  # what a mark says when it is pointed at
