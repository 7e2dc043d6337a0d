"""Pages in a browser, at the widths of a phone, a tablet and a desk, light and dark: nothing overflows, is cut, lies on
each other or is pale, and no text is below 12 px."""

import shutil
from dataclasses import replace
from functools import partial

import pytest

import resnetx
from resnetx import record
from resnetx.reporting.charts.figure import draw
from tests.reporting.checked_fleet import all_reduce
from tests.reporting.test_check import fleet, made_check

pytestmark = pytest.mark.slow  # starts a browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = (390, 1024, 1600)
SEEN = [(390, "light"), (390, "dark"), (1024, "light"), (1600, "light"), (1600, "dark")]  # 1024 has 1600's drawings
HEIGHT = 300  # little is painted
# What is wrong with a page, a sentence each. Texts of drawings are as large as they are seen, against what lies below
# them; what is `…` was cut.
FAULTS = """() => {
    const found = [];
    const shown = [...document.querySelectorAll('body *:not(svg *)')].filter(part => part.checkVisibility());
    const ownText = node => node.nodeType === 3 ? node.data : '';
    const texts = part => part.tagName === 'svg' ? '' : [...part.childNodes].map(ownText).join('').trim();
    const numbers = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
    const linear = value => value <= 10 ? value / 3295 : ((value / 255 + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) + 0.05;
    const contrast = (one, other) => Math.max(light(one), light(other)) / Math.min(light(one), light(other));
    const ground = part => {
        for (; part; part = part.parentElement) {
            const colour = numbers(getComputedStyle(part).backgroundColor);
            if (colour.length === 3 || colour[3] > 0.5) return colour;
        }
        return [255, 255, 255];
    };
    const page = document.documentElement;
    if (page.scrollWidth > page.clientWidth) found.push(`the page is ${page.scrollWidth} wide`);
    for (const part of shown) {
        if (!texts(part) || part.tagName === 'STYLE') continue;
        const look = getComputedStyle(part), shade = contrast(numbers(look.color), ground(part));
        if (parseFloat(look.fontSize) < 11.85) found.push(`${look.fontSize}: ${texts(part)}`);
        if (shade < 4.5) found.push(`contrast ${shade.toFixed(1)}: ${texts(part)}`);
        const cut = /hidden|clip/.test(look.overflowX) && part.scrollWidth > part.clientWidth + 1;
        if (cut) found.push(`cut: ${texts(part)}`);
    }
    for (const drawing of shown.filter(part => part.tagName === 'svg')) {
        const whole = drawing.getBoundingClientRect(), factor = drawing.getScreenCTM().a;
        const room = drawing.closest('.scroll');
        const title = drawing.closest('figure').querySelector('h3').innerText, paper = ground(drawing);
        if (room && room.scrollWidth > room.clientWidth + 1) found.push(`scrolls: ${title}`);
        const marks = [...drawing.querySelectorAll('path, rect')].map(
            mark => [mark, mark.getBoundingClientRect()]
        ).filter(
            ([, box]) => box.width > 8 && box.height > 8 && box.width < 0.9 * whole.width
        ).map(([mark, box]) => [getComputedStyle(mark), box]).filter(
            ([look]) => look.fill !== 'none' && look.fillOpacity * look.opacity > 0.6
        ).map(([look, box]) => [numbers(look.fill), box]);
        const words = [...drawing.querySelectorAll('text')].filter(
            word => word.textContent.trim() && word.getAttribute('opacity') !== '0'
        ).map(word => [word, word.getBoundingClientRect(), word.textContent]).filter(([, box]) => box.width);
        words.forEach(([word, box, said], index) => {
            const look = getComputedStyle(word), size = parseFloat(look.fontSize) * factor;
            if (size < 11.85) found.push(`${size.toFixed(1)} px in ${title}: ${said}`);
            if (said.includes('…')) found.push(`cut in ${title}: ${said}`);
            if (box.left < whole.left - 2 || box.right > whole.right + 2 || box.top < whole.top - 2
                || box.bottom > whole.bottom + 2) found.push(`out of ${title}: ${said}`);
            const below = marks.filter(([, mark]) => mark.left <= box.left + 2 && mark.right >= box.right - 2
                && mark.top <= box.top + 4 && mark.bottom >= box.bottom - 4).pop();
            const shade = contrast(numbers(look.fill), below ? below[0] : paper);
            if (shade < 3) found.push(`contrast ${shade.toFixed(1)} in ${title}: ${said}`);
            for (const [, other, another] of words.slice(index + 1)) {
                const across = Math.min(box.right, other.right) - Math.max(box.left, other.left);
                const down = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
                if (across > 2 && down > 4) found.push(`in ${title} on each other: ${said}, ${another}`);
            }
        });
    }
    return found;
}"""
LUMA = "(getComputedStyle(document.body).backgroundColor.match(/\\d+/g) || []).slice(0, 3).map(Number)"
# Fills of drawings that are white although the page is dark.
WHITE = """[...document.querySelectorAll('svg rect, svg path')].filter(
    mark => mark.checkVisibility() && getComputedStyle(mark).fill === 'rgb(255, 255, 255)').length"""
PAPERS = ("tallent2017", "li2019", "sth2017", "shi2018", "anderson2018")
PAIR = {"systems": ["dgx1-p100", "gx8"]}
ALEXNET = {"model": "alexnet", "batch_size": 256}
TRACE, TRUTH = "results/lab/training/trace", "results/lab/truth"


def checked(out):
    fleet_of_four = [*fleet(1e-3, 1e-3, 1e-3, 2e-3), all_reduce("a b", 2e-3), all_reduce("c d", 5e-3)]
    record.write(out / "record" / "check.json", made_check(fleet_of_four))
    resnetx.report(str(out / "record"), out=str(out))


PAGES = {
    "study": lambda out: resnetx.report("results/cpu-2core/quickstart", out=str(out)),
    "study of one GPU": lambda out: resnetx.report("results/h100/one-gpu", out=str(out)),
    "study of two systems": lambda out: resnetx.report(f"{TRUTH}/study", out=str(out)),
    "comparison": lambda out: resnetx.compare(
        **PAIR, model=["alexnet", "googlenet"], batch_size=256, gpus=[1, 2, 8], out=str(out)
    ),
    "prediction": lambda out: resnetx.predict(**PAIR, **ALEXNET, gpus=[1, 8], timeline=True, out=str(out)),
    "predictions": lambda out: resnetx.predict(
        systems=["gx8", "dgx1-p100", "dgx-h100"],
        model=["alexnet", "resnet50", "googlenet"],
        batch_size=256,
        out=str(out),
    ),
    "accuracy": lambda out: resnetx.compare(f"{TRUTH}/prediction", f"{TRUTH}/study", out=str(out)),
    "topology": lambda out: resnetx.topology(systems=["dgx1-p100", "gx8", "dgx-h100"], out=str(out)),
    "rings": lambda out: resnetx.topology(systems="dgx1-v100", collective="allreduce", size="64MiB", out=str(out)),
    "all-reduces": lambda out: resnetx.topology(
        systems=["dgx1-v100", "gx8"],
        collective="allreduce",
        gpus=[2, 4, 8],
        size=["64KiB", "1MiB", "64MiB"],
        out=str(out),
    ),
    "describe": lambda out: resnetx.describe(study="paper", out=str(out)),
    "intensity": lambda out: resnetx.describe(intensity=100, gpus=8, out=str(out)),
    "steering": lambda out: resnetx.steer(systems="dgx1-v100", **ALEXNET, pattern="replicated", out=str(out)),
    "run": lambda out: resnetx.report("results/h100/train", out=str(out)),
    "two studies": lambda out: resnetx.compare("results/lab/paper/study", f"{TRUTH}/study", out=str(out)),
    "explained": lambda out: resnetx.explain("results/cpu-2core/quickstart", out=str(out)),
    "many benches": lambda out: resnetx.report("results/cpu-2core/bench", out=str(out)),
    "two machines": lambda out: resnetx.report("results/lab/machines", out=str(out)),  # studies with budget=
    **{paper: partial(lambda paper, out: resnetx.reproduce(paper, out=str(out)), paper) for paper in PAPERS},
    "trace": lambda out: resnetx.report(TRACE, out=str(out)),
    "bench": lambda out: resnetx.report("results/lab/links", out=str(out)),
    "check": checked,
    "mixture": lambda out: resnetx.report(TRACE, f"{TRUTH}/prediction", "results/lab/degraded", "gx8", out=str(out)),
}


@pytest.fixture(autouse=True)
def _drawn_for_screens_alone(monkeypatch):
    """What is drawn for print is no part of a page."""

    def drawn(figure):
        chart = draw(figure.wide or figure.chart)
        return replace(chart, screen=chart.svg)

    monkeypatch.setattr("resnetx.reporting.page.draw_figure", drawn)
    monkeypatch.setattr("vl_convert.svg_to_pdf", lambda _: b"")


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
def test_every_page_is_whole_and_can_be_read(tab, kind, tmp_path):
    PAGES[kind](tmp_path)
    tab.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})
    tab.goto((tmp_path / "index.html").as_uri())
    tab.add_style_tag(content="figure { content-visibility: visible }")  # laid out once, not at each question
    tab.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
    for width, scheme in SEEN:
        tab.set_viewport_size({"width": width, "height": HEIGHT})
        tab.emulate_media(color_scheme=scheme)
        assert tab.evaluate(FAULTS) == [], (width, scheme)
        assert (sum(tab.evaluate(LUMA)) >= 3 * 128) == (scheme == "light")
        assert scheme == "light" or not tab.evaluate(WHITE), width
    assert tab.locator("figure svg title").count() > 0  # what a mark says when it is pointed at


# How visible the marks of the workload of the first visible mark are, and those of others, by figure.
POINTED = """of => [...document.querySelectorAll('figure')].map(figure => {
    const marks = [...figure.querySelectorAll('[data-of]')].filter(
        mark => mark.checkVisibility() && !mark.getAttribute('style')?.endsWith('--own:0')
    ), seen = own => Math.max(0, ...marks.filter(mark => (mark.dataset.of === of) === own).map(
        mark => Number(getComputedStyle(mark).opacity)
    ));
    return [seen(true), seen(false)];
}).filter(([own, others]) => own && others)"""


def test_a_workload_that_is_pointed_at_stands_out_in_all_figures(tab, tmp_path):
    PAGES["comparison"](tmp_path)
    tab.set_viewport_size({"width": WIDTHS[1], "height": 900})
    tab.goto((tmp_path / "index.html").as_uri())
    mark = tab.locator("figure path[data-of]:visible").first
    of = mark.get_attribute("data-of")
    alike = tab.evaluate(POINTED, of)
    assert len(alike) > 2 and all(others > 0.3 for _, others in alike)
    mark.hover(force=True)
    assert all(own > 0.3 and others <= 0.12 for own, others in tab.evaluate(POINTED, of))
    assert len(tab.evaluate(POINTED, of)) == len(alike)


def test_faults_of_a_page_are_found(tab, tmp_path):
    (tmp_path / "index.html").write_text(
        "<body style='background: white'><p style='color: #bbb; font-size: 9px'>pale</p>"
        "<figure><h3>one</h3><svg width=100 height=40><text x=90 y=20>too long</text>"
        "<text x=92 y=22>on it…</text></svg></figure><div style='width: 2000px'>wide</div>"
    )
    tab.set_viewport_size({"width": 390, "height": HEIGHT})
    tab.goto((tmp_path / "index.html").as_uri())
    found = " ".join(tab.evaluate(FAULTS))
    for fault in ("the page is 20", "9px: pale", "contrast 1.9: pale", "cut in one", "out of one", "on each other"):
        assert fault in found
