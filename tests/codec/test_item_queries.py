"""Items as queries: what is like an item is found by its code alone."""

import numpy as np
import pytest

from supquant import (
    AnchorKernel,
    CodeIndex,
    ProductQuantizer,
    PublishedQuantizer,
    SupervisedQuantizer,
)
from supquant_lab.hashing.binary_codec import BinaryCodec
from supquant_lab.hashing.label_codec import LabelCodec


def search_like(index, ids, k, ranking=None):
    tables = index.codec.item_tables(index.codes(ids), ranking)
    sums, found = index.search_tables(tables, k)
    return tables.scores(sums), found


def test_an_item_with_a_product_code_is_nearest_to_itself(clusters):
    X, _ = clusters
    index = CodeIndex(ProductQuantizer(2, n_codewords=16, random_state=0).fit(X)).add(X)
    scores, found = search_like(index, [7], 300)
    asked = index.search(index.reconstruct([7]), 300)  # product codes have vectors as features
    assert np.array_equal(found, asked[1])
    np.testing.assert_allclose(scores, asked[0], atol=1e-5)
    np.testing.assert_allclose(scores[0, 0], 0, atol=1e-5)


def test_bits_of_an_item_are_compared_with_those_of_others():
    codec = BinaryCodec(None, np.zeros(8, dtype=np.float32))
    index = CodeIndex(codec).add_codes([[0b11110000], [0b11110001], [0b00001111]])
    assert [each.tolist() for each in search_like(index, [0], 3)] == [[[0, 1, 8]], [[0, 1, 2]]]


def test_labels_of_an_item_are_compared_with_those_of_others():
    codec = LabelCodec(np.eye(2, dtype=np.float32), np.array(["cat", "dog"]))
    index = CodeIndex(codec).add_codes([[0], [1], [0]])
    assert [each.tolist() for each in search_like(index, [2], 3)] == [[[1, 1, 0]], [[0, 2, 1]]]


@pytest.mark.parametrize("ranking", ["label", "position"])
@pytest.mark.parametrize("labelled", [False, True])
def test_items_similar_to_an_item_of_the_default_model_have_its_label(clusters, ranking, labelled):
    X, y = clusters
    model = SupervisedQuantizer(4, n_codewords=16, max_iter=3, random_state=0).fit(X, y)
    index = CodeIndex(model).add(X, y if labelled else None)
    _, found = search_like(index, range(0, 300, 7), 10, ranking)
    asked = index.search(X[::7], 10, ranking=ranking)[1]
    own = y[::7, None]
    assert (y[found] == own).mean() >= (y[asked] == own).mean() - 0.05


def test_items_similar_to_an_item_of_the_published_model_have_its_label(clusters):
    X, y = clusters
    model = PublishedQuantizer(
        2, n_codewords=16, features=AnchorKernel(50, random_state=0), max_iter=3, random_state=0
    ).fit(X, y)
    index = CodeIndex(model).add(X, y)
    for ranking in model.codec_.rankings:
        _, found = search_like(index, range(0, 300, 7), 10, ranking)
        asked = index.search(X[::7], 10, ranking=ranking)[1]
        assert (y[found] == y[::7, None]).mean() >= (y[asked] == y[::7, None]).mean() - 0.05
