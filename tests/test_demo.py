import re
import zlib

import numpy as np
import pytest

from supquant.demo.digits import SHOWN, run_demo
from supquant.demo.page import demo_page
from supquant.demo.pictures import png


@pytest.fixture(scope="module")
def demo():
    return run_demo()


def test_our_codes_beat_product_quantization_and_raw_vectors(demo):
    found = {contender.name: contender for contender in demo.contenders}
    assert found["supquant"].bytes_per_item == found["product quantization"].bytes_per_item == 2
    assert found["supquant"].map > max(found["product quantization"].map, found["raw vectors"].map) + 0.1


def test_answers_come_from_the_database_alone(demo):
    assert len(demo.typical) == 10
    assert [demo.labels[answer.query] for answer in demo.typical] == list(range(10))
    for answer in demo.typical + demo.hardest:
        assert len(answer.ours) == len(answer.theirs) == SHOWN
        assert answer.query not in answer.ours + answer.theirs


def test_the_page_marks_right_and_wrong_and_needs_nothing_else(demo):
    page = demo_page(demo)
    wrong = sum(
        demo.labels[row] != demo.labels[answer.query]
        for answer in demo.typical + demo.hardest
        for row in answer.ours + answer.theirs
    )
    assert page.count("<figure class='wrong'>") == wrong > 0
    assert "$" not in page
    assert not re.search(r"(src|href)=['\"](?!data:)", page)


def test_png_holds_the_pixels():
    picture = np.array([[0, 1], [0.5, 0.2]])
    data = png(picture)
    start = data.index(b"IDAT") + 4
    lines = zlib.decompress(data[start : data.index(b"IEND") - 8])
    assert lines == bytes([0, 0, 255, 0, 128, 51])
