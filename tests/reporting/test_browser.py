"""Pages in a browser: nothing overflows at the widths of a phone, a tablet and a desk, light or dark."""

import shutil

import pytest

import resnetx
from resnetx import record
from tests.reporting.checked_fleet import all_reduce
from tests.reporting.test_check import fleet, made_check

pytestmark = pytest.mark.slow  # starts a browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LEAST_TEXT_PX = 11.85  # 12 but for rounding
SIZES = """[...document.querySelectorAll('figure:not(.graph) svg text')]
    .filter(text => text.getBoundingClientRect().width > 0)
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
    """Two systems compared, a study, and one page of a trace, a check, a prediction and a bench."""
    folder = tmp_path_factory.mktemp("pages")
    words = {"model": ["alexnet", "googlenet"], "batch_size": 256, "gpus": [1, 2, 8], "out": str(folder / "systems")}
    resnetx.compare(systems=["dgx1-p100", "gx8"], **words)
    study = resnetx.report("results/cpu-2core/quickstart", out=str(folder / "study"))
    check = made_check([*fleet(1e-3, 1e-3, 1e-3, 2e-3), all_reduce("a b", 2e-3), all_reduce("c d", 5e-3)])
    record.write(folder / "check" / "check.json", check)
    trace, bench = "results/lab/training/trace", "results/lab/degraded"
    mixture = resnetx.report(
        str(folder / "check"), trace, "results/lab/truth/prediction", bench, out=str(folder / "all")
    )
    return [folder / "systems" / "index.html", study, mixture]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1600])
def test_nothing_overflows_and_text_can_be_read(browser, pages, width, scheme):
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 1200})
    for file in pages:
        page = context.new_page()
        page.goto(file.as_uri())
        page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, file
        if file != pages[1]:
            assert min(page.evaluate(SIZES)) >= LEAST_TEXT_PX, file
        assert (sum(page.evaluate(LUMA)) < 3 * 128) == (scheme == "dark")
        assert page.locator("figure svg title").count() > 0  # what a mark says when it is pointed at
    context.close()
