"""Draw the pictures of docs/gallery from what the examples find: `make gallery`. It needs Chromium (`make browser`).

python benchmarks/gallery.py [NAME ...]    # only these pictures
"""

import contextlib
import io
import runpy
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image

from supquant.demo import QUESTIONS
from supquant.demo.pictures import data_uri
from supquant_lab.bench.serving.process import ServiceProcess

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "gallery"
COLOURS = 96  # of a picture's palette
STYLE = """
* { box-sizing: border-box } body { margin: 0; padding: 18px; background: #fafaf8; color: #1c1e21;
  font: 15px/1.45 'DejaVu Sans', sans-serif }
article { display: flex; gap: 18px; align-items: center; background: #fff; border: 1px solid #e2e2de; border-radius: 10px;
  padding: 12px 16px; margin-bottom: 12px }
article:last-child { margin: 0 } h2 { font-size: 16px; margin: 0 0 8px } .texts { display: block }
.answer { display: grid; grid-template-columns: 130px 1fr auto; gap: 12px; padding: 3px 0; color: #333 }
.answer small { color: #778 }
.score { display: flex; align-items: center; gap: 8px; font-variant-numeric: tabular-nums; color: #667 }
.score i { height: 9px; border-radius: 9px; background: #2456c5 }
figure { margin: 0; width: 74px; text-align: center; font-size: 11px; flex: none } .query { width: 92px }
img { width: 100%; display: block; image-rendering: pixelated; border: 1px solid #e2e2de; border-radius: 5px }
.query img { border: 2px solid #1c1e21 } .strip { display: flex; gap: 8px; flex-wrap: wrap }
.what { margin: 0 0 5px; color: #667 }
code { font-family: 'DejaVu Sans Mono', monospace; font-size: 13px; color: #2456c5 }
section + section { margin-top: 12px }
"""


def run_example(name):
    """Return the names that an example leaves, without what it prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        return runpy.run_path(str(ROOT / "examples" / f"{name}.py"))


def search_texts():
    """Return the first answers to a few questions, as cards."""
    names = run_example("search_texts")
    questions = names["asked"].metadata["text"].to_pylist()
    cards = []
    for query in (0, 1, 4):
        answers = [
            f"<div class='answer'><span class='score'><i style='width:{70 * each['score']:.0f}px'></i>{each['score']:.2f}</span>"
            f"<span>{escape(each['text'])}</span><small>{escape(each['true_intent'].replace('_', ' '))}</small></div>"
            for each in names["answers"]
            if each["query"] == query
        ]
        cards.append(
            f"<article class='texts'><h2>{escape(questions[query])}</h2>{''.join(answers)}</article>"
        )
    return "".join(cards)


def picture(image, words, kind="found"):
    """Return a picture with words under it."""
    return f"<figure class='{kind}'><img src='{data_uri(image)}'><figcaption>{escape(words)}</figcaption></figure>"


def search_digits():
    """Return queries and their first answers among digits."""
    names = run_example("search_digits")
    rows = {name: row for row, name in enumerate(names["names"])}
    index = names["CodeIndex"](names["quantizer"]).add(names["X_items"], ids=names["names"])
    cards = []
    for query in (0, 7, 30):
        scores, ids = index.search(names["X_queries"][query], k=8)
        strip = [
            picture(1 - names["X_items"][rows[name]].reshape(8, 8) / 16, f"{score:.2f}")
            for score, name in zip(scores, ids, strict=True)
        ]
        asked = picture(1 - names["X_queries"][query].reshape(8, 8) / 16, "query", "query")
        cards.append(f"<article>{asked}<div class='strip'>{''.join(strip)}</div></article>")
    return "".join(cards)


def filter_products():
    """Return a query and its answers under three conditions."""
    names = run_example("filter_products")
    rows = [
        f"<section><p class='what'><code>where=\"{escape(where)}\"</code></p><div class='strip'>"
        + "".join(picture(names["pictures"][each["id"]], f"costs {each['price']}") for each in found)
        + "</div></section>"
        for where, found in names["found"].items()
    ]
    query = names["query"]
    asked = picture(names["pictures"][query], f"costs {names['catalogue']['price'][query]}", "query")
    return f"<article>{asked}<div>{''.join(rows)}</div></article>"


def shoot(address, size, path):
    """Write what Chromium shows of a page, with a palette."""
    with tempfile.TemporaryDirectory() as folder:
        shot = Path(folder) / "shot.png"
        command = [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--screenshot={shot}",
        ]
        command += [
            f"--user-data-dir={folder}/profile",
            f"--window-size={size[0]},{size[1]}",
            "--virtual-time-budget=9000",
        ]
        subprocess.run([*command, address], check=True, capture_output=True, timeout=120)
        with Image.open(shot) as drawn:
            image = drawn.convert("RGB")
    ground = np.asarray(image) != np.asarray(image)[-1, -1]
    height = min(
        size[1], int(np.flatnonzero(ground.any(axis=(1, 2)))[-1]) + 19
    )  # without the empty part below
    image.crop((0, 0, size[0], height)).quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def draw_cards(cards, path):
    """Write a picture of cards."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(
            f"<!doctype html><meta charset='utf-8'><style>{STYLE}</style>{cards}", encoding="utf-8"
        )
        shoot(page.as_uri(), (860, 1200), path)


def discover_questions(path):
    """Write a picture of the page of `supquant discover`."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(QUESTIONS, folder)
        command = [sys.executable, "-m", "supquant", "discover", QUESTIONS.name, "--labels", "intent"]
        command += ["--save", "questions.model", "-o", "found.html"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        shoot((Path(folder) / "found.html").as_uri(), (1000, 820), path)


def serve_digits(path):
    """Write a picture of the page of a service."""
    with ServiceProcess("--demo") as service:
        shoot(f"{service.url}/", (1000, 760), path)


PICTURES = {
    "search_texts": lambda path: draw_cards(search_texts(), path),
    "search_digits": lambda path: draw_cards(search_digits(), path),
    "filter_products": lambda path: draw_cards(filter_products(), path),
    "discover_questions": discover_questions,
    "serve_digits": serve_digits,
}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or PICTURES:
        PICTURES[wanted](GALLERY / f"{wanted}.png")
        print(f"wrote docs/gallery/{wanted}.png")
