"""The site of the documentation: it builds without a warning, and a browser opens its pages without an error."""

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import supquant
import supquant.evaluation

ROOT = Path(__file__).parents[2]
PHONE = 390  # pixels
PROBE = """<script>
addEventListener("load", () => parent.postMessage(JSON.stringify({
  page: document.documentElement.dataset.page,
  heading: document.querySelector("h1")?.textContent ?? "",
  tooWide: document.documentElement.scrollWidth > innerWidth,
  brokenPictures: [...document.images].filter((each) => !each.naturalWidth).map((each) => each.src),
}), "*"));
</script>"""
FRAMES = """<!doctype html><body><script>
const pages = {pages}, found = [];
const frame = document.body.appendChild(document.createElement("iframe"));
frame.style = "width: {width}px; height: 800px";
const open = () => {{ if (pages.length) frame.src = pages.shift() }};
addEventListener("message", (event) => {{
  found.push(event.data);
  document.body.dataset.found = found.join("\\n");
  open();
}});
open();
</script></body>"""


# One test, so that the site is built once however tests are spread over processes.
def test_site_builds_without_a_warning_and_opens_without_an_error(tmp_path, request):
    site = tmp_path / "site"
    sphinx = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--conf-dir", "docs"]
    built = subprocess.run([*sphinx, ".", str(site)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert (site / re.search(r"url=(\S+)\"", (site / "index.html").read_text())[1]).exists()

    reference = (site / "docs" / "api.html").read_text(encoding="utf-8")
    for module in (supquant, supquant.evaluation):
        for name in set(module.__all__) - {"__version__"}:
            assert f'id="{module.__name__}.{name}"' in reference

    sources = [page for page in ROOT.glob("docs/**/*.md") if "results" not in page.parts]
    pages = [page.relative_to(ROOT).with_suffix(".html") for page in sources]
    pages += [Path(f"{name}.html") for name in ("ARCHITECTURE", "CHANGELOG", "CONTRIBUTING")]
    for page in pages:
        text = (site / page).read_text(encoding="utf-8").replace("<html", f'<html data-page="{page}"', 1)
        (site / page).write_text(text.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    frames = FRAMES.format(pages=json.dumps([str(page) for page in pages]), width=PHONE)
    (site / "frames.html").write_text(frames)

    seen = request.getfixturevalue("browse")(site / "frames.html")  # skips without a browser, after the build
    assert seen.console == []
    found = html.unescape(re.search(r'data-found="([^"]*)"', seen.dom)[1])
    loaded = {each["page"]: each for each in map(json.loads, found.splitlines())}
    assert set(loaded) == {str(page) for page in pages}
    for each in loaded.values():
        assert each["heading"], each
        assert each["brokenPictures"] == [], each
        assert not each["tooWide"], each
