"""Floors of the default model on real sentences, in a bare clone: known classes with and without labels, and new classes."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest

from supquant import CodeIndex, SupervisedQuantizer, open_vectors
from supquant.demo import QUESTIONS

N_KNOWN = 30  # of 40 classes; the others have no labelled row


@pytest.fixture(scope="module")
def sentences():
    """Embeddings and labels of queries, of labelled rows, and of items whose labels are not told."""
    source = open_vectors(QUESTIONS, labels="true_intent")
    X, y = source.X, np.unique(source.labels.tolist(), return_inverse=True)[1]
    queries, rest = np.split(np.random.default_rng(0).permutation(len(y)), [600])
    known, new = rest[y[rest] < N_KNOWN], rest[y[rest] >= N_KNOWN]
    labelled, items = np.array_split(known, 2)
    return SimpleNamespace(X=X, y=y, queries=queries, labelled=labelled, items=items, new=new)


def mean_average_precision(index, data, queries, items):
    """Return the MAP of queries over items, all given by their row numbers."""
    found = data.y[items][index.search(data.X[queries], len(items))[1]]
    hits = found == data.y[queries, None]
    precision = hits.cumsum(axis=1) / np.arange(1, len(items) + 1)
    return float(((precision * hits).sum(axis=1) / hits.sum(axis=1)).mean())


def known_queries(data):
    return data.queries[data.y[data.queries] < N_KNOWN]


def test_two_bytes_find_labelled_sentences(sentences):
    X, y = sentences.X[sentences.labelled], sentences.y[sentences.labelled]
    sq = SupervisedQuantizer(2, random_state=0).fit(X, y)
    index = CodeIndex(sq).add_codes(sq.training_codes_)
    assert mean_average_precision(index, sentences, known_queries(sentences), sentences.labelled) > 0.955


def test_eight_bytes_find_sentences_without_labels(sentences):
    X, y = sentences.X[sentences.labelled], sentences.y[sentences.labelled]
    sq = SupervisedQuantizer(8, random_state=0).fit(X, y)
    index = CodeIndex(sq).add(sentences.X[sentences.items])
    assert mean_average_precision(index, sentences, known_queries(sentences), sentences.items) > 0.92


@pytest.fixture(scope="module")
def partly_labelled(sentences):
    """A model of sentences of which some have no label, among them all of the new classes; the latter, and an index of them."""
    items = np.concatenate([sentences.items, sentences.new])
    rows = np.concatenate([sentences.labelled, items])
    y = np.where(np.isin(rows, sentences.labelled), sentences.y[rows], np.nan)
    sq = SupervisedQuantizer(8, random_state=0).fit(sentences.X[rows], y)
    return sq, items, CodeIndex(sq).add(sentences.X[items])


def new_queries(data):
    return np.setdiff1d(data.queries, known_queries(data))


def test_eight_bytes_find_sentences_of_known_and_new_classes(sentences, partly_labelled):
    _, items, index = partly_labelled
    assert mean_average_precision(index, sentences, known_queries(sentences), items) > 0.885
    assert mean_average_precision(index, sentences, new_queries(sentences), items) > 0.72


def test_ten_labels_of_each_new_class_find_its_sentences_better(sentences, partly_labelled):
    sq, items, index = partly_labelled
    few = np.concatenate(
        [sentences.new[sentences.y[sentences.new] == new][:10] for new in range(N_KNOWN, 40)]
    )
    queries = new_queries(sentences)
    before = mean_average_precision(index, sentences, queries, items)
    extended = index.with_codec(copy.deepcopy(sq).extend(sentences.X[few], sentences.y[few]))
    assert mean_average_precision(extended, sentences, queries, items) > before + 0.005
    known = known_queries(sentences)
    lost = mean_average_precision(index, sentences, known, items) - mean_average_precision(
        extended, sentences, known, items
    )
    assert lost < 0.01
