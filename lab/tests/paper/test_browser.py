"""The report in a browser: figures and pictures are there, the console is empty, a phone need not scroll sideways."""

import html
import json
import re

import pytest

PHONE = 390  # pixels
PROBE = """<script>
addEventListener("load", () => {
  document.querySelectorAll("details").forEach((each) => { each.open = true });
  dispatchEvent(new Event("resize"));  // the event of an opened part comes later
  const boxes = (selector, name) => Object.fromEntries([...document.querySelectorAll(selector)].map((each) =>
    [each.dataset[name], [each.getBoundingClientRect().width, each.getBoundingClientRect().height]]));
  const found = {
    width: innerWidth,
    scrollWidth: document.documentElement.scrollWidth,
    figures: boxes("figure[data-drawn]", "drawn"),
    drawings: document.querySelectorAll("figure[data-drawn] > svg[role=img][aria-label]").length,
    tables: boxes("table[data-table]", "table"),
    captions: document.querySelectorAll("table[data-table] > caption").length,
    cut: [...document.querySelectorAll(".scroll")].filter((each) => each.scrollWidth > each.clientWidth + 1).length,
    told: [...document.querySelectorAll(".sideways")].filter((each) => each.offsetWidth > 0).length,
    pictures: [...document.images].map((each) => each.complete && each.naturalWidth > 0 && each.alt !== ""),
  };
  parent.postMessage(JSON.stringify(found), "*");
});
</script>"""
FRAME = """<!doctype html><body><iframe src="probed.html" style="width: {width}px; height: 800px; border: 0"></iframe>
<script>addEventListener("message", (event) => {{ document.body.dataset.found = event.data }})</script></body>"""


@pytest.fixture(scope="module")
def measure(rendered, browse, tmp_path_factory):
    """Return a function that shows the report at a width and returns what the browser measured.

    A window of Chromium is never narrower than 500 pixels, a frame in it may be.
    """
    folder = tmp_path_factory.mktemp("probe")
    page = rendered.page.read_text(encoding="utf-8")
    (folder / "probed.html").write_text(page.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")

    def lay_out(width):
        frame = folder / f"{width}.html"
        frame.write_text(FRAME.format(width=width))
        seen = browse(frame, f"--window-size={max(width, 500)},900")
        return json.loads(html.unescape(re.search(r'data-found="([^"]*)"', seen.dom)[1])), seen.console

    return lay_out


@pytest.mark.parametrize("width", [PHONE, 1200])
def test_every_figure_table_and_picture_is_laid_out_without_sideways_scrolling(measure, rendered, width):
    found, console = measure(width)
    assert found["width"] == width
    assert found["scrollWidth"] <= width
    assert set(found["figures"]) == {path.stem for path in rendered.figures}
    assert found["drawings"] == len(found["figures"])
    assert set(found["tables"]) == {path.stem for path in rendered.tables}
    assert found["captions"] == len(found["tables"])
    for box in (*found["figures"].values(), *found["tables"].values()):
        assert min(box) > 40
    assert all(0.5 < high / wide < 2 for wide, high in found["figures"].values())
    assert len(found["pictures"]) == 3 * (1 + 2 * 10)  # two queries, one of them at the top too
    assert all(found["pictures"])
    assert found["told"] == found["cut"]  # a table says so if it goes on beyond the screen
    assert width != PHONE or found["cut"] > 0
    assert console == []


def test_page_as_it_is_gives_its_sections_and_a_silent_console(browse, rendered):
    seen = browse(rendered.page)
    for name in (
        "standing",
        "map",
        "time",
        "triplet",
        "transform",
        "penalties",
        "convergence",
        "without-labels",
    ):
        assert f'<section id="{name}">' in seen.dom
    assert seen.console == []


def test_an_error_in_the_console_would_be_seen(browse, tmp_path):
    (tmp_path / "bad.html").write_text("<!doctype html><script>nothing.there()</script>")
    assert "nothing is not defined" in browse(tmp_path / "bad.html").console[0]
