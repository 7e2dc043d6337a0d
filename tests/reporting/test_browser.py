"""Pages in a browser: nothing overflows at the widths of a phone, a tablet and a desk, light or dark."""

import shutil

import pytest

import resnetx

pytestmark = pytest.mark.slow  # starts a browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDE_TEXT_PX = 11.9  # at 800 px of a figure; 12 but for rounding
SIZES = """[...document.querySelectorAll('figure svg text')]
    .map(text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a).filter(size => size > 0)"""
LUMA = "(getComputedStyle(document.body).backgroundColor.match(/\\d+/g) || []).slice(0, 3).map(Number)"


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The page of two systems compared, and that of a study."""
    folder = tmp_path_factory.mktemp("pages")
    words = {"model": ["alexnet", "googlenet"], "batch_size": 256, "gpus": [1, 2, 8], "out": str(folder / "systems")}
    resnetx.compare(systems=["dgx1-p100", "gx8"], **words)
    study = resnetx.report("results/cpu-2core/quickstart", out=str(folder / "study"))
    return [folder / "systems" / "index.html", study]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1600])
def test_nothing_overflows_and_text_can_be_read(browser, pages, width, scheme):
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 1200})
    for file in pages:
        page = context.new_page()
        page.goto(file.as_uri())
        page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, file
        if width >= 1024 and "systems" in str(file):
            assert min(page.evaluate(SIZES)) >= WIDE_TEXT_PX, file
        assert (sum(page.evaluate(LUMA)) < 3 * 128) == (scheme == "dark")
        assert page.locator("figure svg title").count() > 0  # what a mark says when it is pointed at
    context.close()
