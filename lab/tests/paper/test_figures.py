"""Figures are the same every time, name what they show, and share no ids on a page."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from supquant_lab.paper.drawing import PALETTE, spread_labels, style
from supquant_lab.paper.figures import map_figure, sweep_figure
from supquant_lab.paper.measurements import sweep_table
from supquant_lab.paper.results import OURS, Series, read_results


@pytest.fixture(scope="module")
def results(made, tmp_path_factory):
    cells = [
        made.cell("mnist", method, bits) for method in ("sq", "sdh", "pq", "euclidean") for bits in (16, 32)
    ]
    return read_results(made.folder(tmp_path_factory.mktemp("few"), cells, sweeps=[made.sweep("mnist")]))


def test_a_figure_has_the_same_bytes_every_time(results):
    first, again = (map_figure(results, "mnist", "paper", "learned") for _ in range(2))
    assert first == again


def test_every_line_is_named_in_the_picture_and_in_words(results):
    figure = map_figure(results, "mnist", "paper", "encoded")
    texts = {text.strip() for text in ET.fromstring(figure.svg).itertext() if text.strip()}
    assert {"sq", "sdh", "pq", "euclidean", "16", "32"} <= texts
    assert "from the top: " in figure.alt
    for line in results.series(dataset="mnist"):
        assert line.label in figure.alt


def test_points_are_of_the_splits_that_all_of_them_have(made, tmp_path):
    cells = [made.cell(bits=16, seed=seed, map_learned=value) for seed, value in ((0, 0.5), (1, 0.9))]
    cells += [made.cell(bits=32, seed=0, map_learned=0.6), made.cell("mnist", "pq", 16, map_learned=0.3)]
    cells += [made.cell("mnist", "pq", 16, seed=1, map_learned=0.1)]
    figure = map_figure(read_results(made.folder(tmp_path, cells)), "mnist", "paper", "learned")
    assert "seed 0. At the right, from the top: sq .6000, pq .3000 (at 16 bits)." in figure.alt
    assert "bits of a code (seed 0)" in figure.svg


def test_line_without_such_codes_is_left_out(results):
    assert "euclidean" not in map_figure(results, "mnist", "paper", "learned").alt
    assert map_figure(results, "mnist", "unseen", "encoded") is None


def test_inline_figures_share_no_ids_and_follow_the_page_in_colour(results):
    shown = [map_figure(results, "mnist", "paper", codes).inline() for codes in ("learned", "encoded")]
    ids = [set(re.findall(r' id="([^"]*)"', each)) for each in shown]
    assert not ids[0] & ids[1]
    for each in shown:
        assert all(
            f'"#{used}"' in each or f"url(#{used})" in each for used in re.findall(r' id="([^"]*)"', each)
        )
        assert "var(--ours)" in each
        assert not [colour for colour in PALETTE.values() if colour in each]
        assert each.startswith("<svg ")
        assert 'role="img" aria-label="MAP by code length' in each


def test_a_sweep_names_both_best_points(results):
    figure = sweep_figure(results, results.sweeps[0])
    assert "Best here: gamma 1e-03, mu 1e+00, validation MAP .7000" in figure.alt
    assert "In the paper: gamma 1e-07, mu 1e+01, validation MAP .9449" in figure.alt
    assert "the paper's best" in figure.svg


def test_point_that_was_cut_short_is_marked(made, tmp_path):
    sweep = made.sweep("mnist")
    sweep["points"][3] |= {"map": 0.123, "truncated": True}
    results = read_results(made.folder(tmp_path, [], sweeps=[sweep]))
    assert ".1230†" in sweep_figure(results, sweep).svg
    table = sweep_table(results, sweep).markdown()
    assert table.count("†") == 2  # the point and the note
    assert ".1230† |" in table


def test_labels_keep_their_distance_within_bounds():
    places = spread_labels([0.1, 0.95, 0.96, 0.97], 0.1, 0.0, 1.0)
    assert places[0] == 0.1
    assert places[-1] <= 1.0
    assert all(upper - lower >= 0.1 - 1e-6 for lower, upper in pairwise(places))


def test_ours_is_drawn_thickest():
    others = [Series(name) for name in ("sdh", "pq", "classifier", "euclidean", "sq-triplet")]
    assert all(style(OURS[0]).width > style(other).width for other in others)
