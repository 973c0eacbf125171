"""The built pages in a real browser, at the widths of a laptop and of a telephone.

Needs `make docs`, and Playwright with a Chromium (`pip install playwright && playwright install chromium`, or one on
the PATH); skipped with the reason where one of them is missing.
"""

import functools
import http.server
import shutil
import threading

import pytest

from tests import ROOT

PAGES = ROOT / "docs" / "_build" / "html"
WIDTHS = (1280, 390)
#: What sticks out of the page to the right, by tag and class; what scrolls inside of something else does not.
STICKING_OUT = """() => {
    if (document.documentElement.scrollWidth <= window.innerWidth) return [];
    return [...document.body.querySelectorAll("*")]
        .filter(e => e.getBoundingClientRect().right > window.innerWidth + 1 && e.offsetParent)
        .map(e => e.tagName + "." + e.className).slice(0, 5)
        .concat([`${document.documentElement.scrollWidth} pixels`]);
}"""
BROKEN_IMAGES = """async () => {
    const images = [...document.images];
    images.forEach(image => image.loading = "eager");
    await Promise.all(images.map(image => image.decode().catch(() => null)));
    return images.filter(image => !image.naturalWidth).map(image => image.src);
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site():
    """Serve the built pages from this process; return their address."""
    if not (PAGES / "index.html").is_file():
        pytest.skip("no pages in docs/_build/html: run make docs")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=PAGES))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def browser():
    """Return Playwright's Chromium, or one on the PATH; skip the tests if there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright, to see the pages")
    with playwright.sync_playwright() as started:
        try:
            found = started.chromium.launch()
        except playwright.Error:
            place = shutil.which("chromium") or shutil.which("google-chrome")
            if place is None:
                pytest.skip("no Chromium: run playwright install chromium")
            found = started.chromium.launch(executable_path=place, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser):
    """Return an empty browser page whose list `errors` collects console errors, exceptions and failed requests."""
    page = browser.new_page(viewport={"width": WIDTHS[0], "height": 800})
    page.errors = []
    page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("requestfailed", lambda request: page.errors.append(f"not loaded: {request.url}"))
    yield page
    page.close()


#: Of the pages of single names, which are alike, those that stand for all: the longest of each kind.
NAMES = ("GLNClassifier", "MarginModel", "solve", "svm_gln")
NAMES += ("extensions.best_networks.margin_bound", "extensions.infinite.gram_matrix")


def names():
    """Return the pages to test: all except indices, sources, and most pages of single names."""
    found = sorted(str(path.relative_to(PAGES)) for path in PAGES.rglob("*.html"))
    kept = [name for name in found if not name.startswith(("_", "genindex", "py-modindex", "api/generated"))]
    return (kept or ["index.html"]) + [f"api/generated/implicit_bias.{name}.html" for name in NAMES]


@pytest.mark.parametrize("name", names())
def test_page_fits_and_loads(name, page, site):
    page.goto(f"{site}/{name}", wait_until="load")
    assert page.evaluate(BROKEN_IMAGES) == []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(STICKING_OUT) == [], f"at {width} pixels"
    assert page.errors == []


def test_search_finds_public_name(page, site):
    page.goto(f"{site}/search.html?q=svm_gln", wait_until="load")
    page.wait_for_selector("#search-results li a", timeout=30_000)
    page.wait_for_function("!document.querySelector('#search-results').innerText.startsWith('Searching')")
    links = page.eval_on_selector_all("#search-results li a", "links => links.map(link => link.href)")
    assert any("implicit_bias.svm_gln" in link for link in links)
    assert page.errors == []


def test_pictures_lead_to_full_size(page, site):
    page.goto(f"{site}/findings.html", wait_until="load")
    pictures = "article img"
    assert page.eval_on_selector_all(pictures, "images => images.length") > 0
    assert page.eval_on_selector_all(pictures, "images => images.filter(i => !i.closest('a')).map(i => i.src)") == []


@pytest.mark.parametrize("name", ["auto_gallery/index", "api/generated/implicit_bias.solve"])
def test_gallery_card_holds_picture_and_link(name, page, site):
    page.goto(f"{site}/{name}.html", wait_until="load")
    page.evaluate(BROKEN_IMAGES)
    found = page.eval_on_selector_all(
        ".sphx-glr-thumbcontainer",
        """cards => cards.map(card => {
            card.scrollIntoView({block: "center", behavior: "instant"});
            const [own, picture] = [card, card.querySelector("img")].map(e => e.getBoundingClientRect());
            const link = document.elementFromPoint((own.left + own.right) / 2, (own.top + own.bottom) / 2);
            return [own.top <= picture.top && picture.bottom <= own.bottom, link.closest("a").href];
        })""",
    )
    assert found
    for held, link in found:
        assert held, link
        assert "/plot_" in link
        assert link.endswith(".html")
