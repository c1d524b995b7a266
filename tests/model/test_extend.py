"""Classes that become known after the fit: the same codes, found under new labels."""

import copy

import numpy as np
import pandas
import polars
import pyarrow
import pytest

from supquant import CodeIndex, SupervisedQuantizer, load_model
from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant.model.added_classes import class_logits, divided, mean_positions, read_new_labels

KNOWN = 8  # digits 8 and 9 are new
FEW = 10


@pytest.fixture(scope="module")
def split(digits):
    X, y = digits
    known = np.flatnonzero(y[:1000] < KNOWN)
    items = np.arange(1000, 1600)
    few = np.concatenate([np.flatnonzero(y[:1000] == new)[:FEW] for new in (8, 9)])
    return X, y, known, items, few


@pytest.fixture(scope="module")
def base(split):
    """A model fitted to the known digits and to rows without labels, and an index of items without labels."""
    X, y, known, items, _ = split
    rows = np.concatenate([known, items])
    labels = [*y[known].tolist(), *[None] * len(items)]
    sq = SupervisedQuantizer(8, n_codewords=64, random_state=0).fit(X[rows], labels)
    return sq, CodeIndex(sq).add(X[items])


@pytest.fixture
def extended(base, split):
    X, y, _, _, few = split
    return copy.deepcopy(base[0]).extend(X[few], y[few])


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if "codes" in path.name}


def test_no_code_changes(base, extended, split, tmp_path):
    X, y, known, items, _ = split
    sq, index = base
    other = index.with_codec(extended)
    index.save(tmp_path / "before")
    other.save(tmp_path / "after")
    assert bytes_of(tmp_path / "before") == bytes_of(tmp_path / "after") != {}
    index.with_codec(extended).save(tmp_path / "before")  # replaces the index that it comes from
    np.testing.assert_array_equal(extended.encode(X[items]), sq.encode(X[items]))
    np.testing.assert_array_equal(extended.encode(X[known], y[known]), sq.encode(X[known], y[known]))


def test_known_classes_keep_their_order_and_the_new_ones_follow(extended, base):
    np.testing.assert_array_equal(base[0].classes_, np.arange(KNOWN))
    np.testing.assert_array_equal(extended.classes_, np.arange(KNOWN + 2))


def test_added_classes_are_predicted_and_no_longer_look_new(base, extended, split):
    X, y, _, _, _ = split
    rest = np.arange(1000, len(X))  # no label of these is known to the model; about 640 are of known classes
    new = y[rest] >= KNOWN
    p = extended.predict_proba(X[rest])
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-4)
    assert (extended.predict(X[rest]) == y[rest])[new].mean() > 0.7
    right_before = (base[0].predict(X[rest]) == y[rest])[~new].mean()
    assert (extended.predict(X[rest]) == y[rest])[~new].mean() > right_before - 0.09
    assert extended.novelty(X[rest])[new].mean() < 0.7 * base[0].novelty(X[rest])[new].mean()
    assert (extended.novelty(X[rest]) <= base[0].novelty(X[rest]) + 1e-5).all()


def mean_precision(index, X, labels, item_labels):
    _, ids = index.search(X, len(item_labels))
    relevant = item_labels[ids] == labels[:, None]
    hits = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
    return float(((hits * relevant).sum(axis=1) / relevant.sum(axis=1)).mean())


def test_existing_items_are_found_under_the_new_label(split):
    X, y, known, items, few = split
    sq = SupervisedQuantizer(8, n_codewords=64, random_state=0).fit(X[known], y[known])
    index = CodeIndex(sq).add(X[items])
    asking = np.flatnonzero(y[1600:] >= KNOWN) + 1600
    before = mean_precision(index, X[asking], y[asking], y[items])
    after = mean_precision(index.with_codec(sq.extend(X[few], y[few])), X[asking], y[asking], y[items])
    assert after > before + 0.02


def test_items_with_an_added_label_are_found_by_it(extended, split):
    X, y, _, items, _ = split
    index = CodeIndex(extended).add(X[items], y[items])
    asking = np.flatnonzero(y[1600:] >= KNOWN) + 1600
    with_labels = mean_precision(index, X[asking], y[asking], y[items])
    without = mean_precision(CodeIndex(extended).add(X[items]), X[asking], y[asking], y[items])
    assert with_labels > without


@pytest.mark.parametrize("new_classes", [None, 0.0])
def test_an_item_with_an_added_label_scores_as_if_it_lay_at_the_mean_of_the_label(split, new_classes):
    X, y, known, items, few = split
    sq = SupervisedQuantizer(4, n_codewords=32, new_classes=new_classes, max_iter=1, random_state=0)
    codec = sq.fit(X[known], y[known]).extend(X[few], y[few]).codec_
    assert (codec.map.stretch == 0) == (new_classes == 0)
    new = items[y[items] == 9][:5]
    labels = np.zeros((len(new), KNOWN + 2))
    labels[:, 9] = 1
    vectors = codec.item_vectors(codec.features(X[new].astype(np.float32)), labels)
    np.testing.assert_array_equal(vectors[:, :KNOWN], 0)
    direction, mean = codec.map.added_directions[1], codec.map.added_means[1]
    np.testing.assert_allclose(direction @ mean, 1, rtol=1e-4)
    np.testing.assert_allclose(vectors[:, KNOWN:] @ direction, 1, rtol=1e-4)


def test_it_can_be_extended_again_and_loads_as_it_was_saved(base, split, tmp_path):
    X, y, _, items, few = split
    both = copy.deepcopy(base[0]).extend(X[few], y[few])
    one_by_one = copy.deepcopy(base[0])
    for new in (8, 9):
        rows = few[y[few] == new]
        one_by_one.extend(X[rows], y[rows])
    np.testing.assert_allclose(one_by_one.predict_proba(X[items]), both.predict_proba(X[items]), atol=1e-5)
    both.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.classes_, both.classes_)
    np.testing.assert_array_equal(loaded.predict_proba(X[items]), both.predict_proba(X[items]))


def test_added_string_labels_can_be_longer_than_the_known_ones(digits):
    X, y = digits
    names = np.array(["a", "b", "c"])
    known = np.flatnonzero(y < 3)
    sq = SupervisedQuantizer(2, n_codewords=32, random_state=0).fit(X[known], names[y[known]])
    sq.extend(X[y == 3][:5], ["a longer one"] * 5)
    assert sq.classes_.tolist() == ["a", "b", "c", "a longer one"]


def names(digits):
    return [f"class {digit}" for digit in digits]


def as_objects(labels):
    objects = np.empty(len(labels), dtype=object)
    objects[:] = labels
    return objects


KINDS_OF_LABELS = {
    "list": list,
    "tuple": tuple,
    "int8": lambda digits: np.array(digits, dtype=np.int8),
    "uint64": lambda digits: np.array(digits, dtype=np.uint64),
    "float": lambda digits: np.array(digits, dtype=float),
    "objects": as_objects,
    "masked": lambda digits: np.ma.array(digits, mask=False),
    "nullable": lambda digits: pandas.Series(digits, dtype="Int64"),
    "category of numbers": lambda digits: pandas.Series(digits, dtype="category"),
    "Arrow of numbers": pyarrow.array,
    "Arrow in chunks": lambda digits: pyarrow.chunked_array([digits[:2], digits[2:]]),
    "polars of numbers": polars.Series,
    "list of strings": names,
    "strings": lambda digits: np.array(names(digits)),
    "variable strings": lambda digits: np.array(names(digits), dtype=np.dtypes.StringDType()),
    "bytes": lambda digits: np.array(names(digits), dtype="S"),
    "objects of NumPy": lambda digits: as_objects([np.str_(name) for name in names(digits)]),
    "Series": lambda digits: pandas.Series(names(digits), dtype=object),
    "string Series": lambda digits: pandas.Series(names(digits), dtype="string"),
    "category": lambda digits: pandas.Series(names(digits), dtype="category"),
    "Categorical": lambda digits: pandas.Categorical(names(digits)),
    "Index": lambda digits: pandas.Index(names(digits)),
    "Arrow": lambda digits: pyarrow.array(names(digits)),
    "Arrow dictionary": lambda digits: pyarrow.array(names(digits)).dictionary_encode(),
    "polars": lambda digits: polars.Series(names(digits)),
    "tuples": lambda digits: as_objects([("digit", digit) for digit in digits]),
    "numbers and strings": lambda digits: [digit if digit < 2 else f"class {digit}" for digit in digits],
}


@pytest.mark.parametrize("kind", KINDS_OF_LABELS)
def test_labels_of_every_kind_of_a_fit_can_be_added(digits, kind):
    X, y = digits
    make, known = KINDS_OF_LABELS[kind], np.flatnonzero(y < 3)[:100]
    sq = SupervisedQuantizer(2, n_codewords=16, max_iter=1, random_state=0)
    sq.fit(X[known], make(y[known].tolist()))
    sq.extend(X[np.isin(y, (3, 4))][:5], make([4, 3, 4, 4, 3]))
    assert sq.classes_.tolist() == read_labels(make([0, 1, 2, 3, 4])).classes.tolist()


@pytest.mark.parametrize("known_as", [np.array, pandas.Series])
@pytest.mark.parametrize("dtype", [object, "str", "category", "string"])
def test_strings_of_pandas_can_be_added_to_those_of_another_kind(digits, known_as, dtype):
    X, y = digits
    names, known = np.array(["a", "b", "c"]), np.flatnonzero(y < 3)
    labels = known_as(names[y[known]], dtype=object)
    sq = SupervisedQuantizer(2, n_codewords=32, random_state=0).fit(X[known], labels)
    sq.extend(X[y == 3][:3], pandas.Series(["e", "d", "e"], dtype=dtype))
    assert sq.classes_.tolist() == ["a", "b", "c", "d", "e"]
    with pytest.raises(InputError, match="of the kind that the model knows"):
        sq.extend(X[y == 4][:3], pandas.Series([4, 5, 4], dtype=object))


@pytest.mark.parametrize(
    "labels",
    [
        [9, None, 9, 8],
        np.array([9, np.nan, 9, 8]),
        np.ma.array([9, 3, 9, 8], mask=[False, True, False, False]),
        pandas.Series([9, None, 9, 8], dtype="Int64"),
        pandas.Series([9, None, 9, 8], dtype=object),
        pyarrow.array([9, None, 9, 8]),
    ],
)
def test_rows_without_a_label_add_nothing(base, split, labels):
    X = split[0]
    sq, same = copy.deepcopy(base[0]), copy.deepcopy(base[0])
    sq.extend(X[:4], labels)
    same.extend(X[[0, 2, 3]], [9, 9, 8])
    np.testing.assert_array_equal(sq.classes_, np.arange(KNOWN + 2))
    assert sq.classes_.dtype == base[0].classes_.dtype
    np.testing.assert_array_equal(sq.codec_.map.means, same.codec_.map.means)


def test_a_label_that_means_unknown_is_not_added(digits):
    X, y = digits
    labels = np.array(["", "b", "c"])[y[y < 3][:100]]
    sq = SupervisedQuantizer(2, n_codewords=16, max_iter=1, missing_label="").fit(X[y < 3][:100], labels)
    assert sq.extend(X[:2], ["", "d"]).classes_.tolist() == ["b", "c", "d"]


def test_numbers_that_no_dtype_can_hold_together_are_kept_as_they_are():
    _, classes = read_new_labels(np.array([2**63 + 1, 2**63 + 3], dtype=np.uint64), 2, np.array([-1, 4]))
    assert classes.tolist() == [-1, 4, 2**63 + 1, 2**63 + 3]


def test_an_index_refuses_a_codec_with_other_codebooks(base, split):
    X, y, known, _, few = split
    other = SupervisedQuantizer(8, n_codewords=64, random_state=1).fit(X[known], y[known])
    with pytest.raises(InputError, match="other codebooks"):
        base[1].with_codec(other.extend(X[few], y[few]))
    with pytest.raises(InputError, match="other codebooks"):
        CodeIndex(other).with_codec(base[0])


def test_extending_leaves_the_old_index_unchanged(base, extended, split):
    X, _, _, items, _ = split
    index = base[1]
    before = index.search(X[items[:5]], 5)
    other = index.with_codec(extended)
    other.remove(np.arange(100))
    other.add(X[:3])
    assert len(index) == len(items)
    for mine, was in zip(index.search(X[items[:5]], 5), before, strict=True):
        np.testing.assert_array_equal(mine, was)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.full(4, 3), "new ones, got \\[3\\]"),
        (["nine"] * 4, "of the kind that the model knows"),
        ([None] * 4, "no labelled row"),
        ([9, 9], "4 rows"),
        (np.eye(4), "1d array"),
    ],
)
def test_labels_that_cannot_be_added_are_refused(extended, base, split, labels, message):
    X = split[0]
    sq = copy.deepcopy(base[0])
    with pytest.raises(InputError, match=message):
        sq.extend(X[:4], labels)
    np.testing.assert_array_equal(sq.classes_, base[0].classes_)


def test_a_model_of_several_labels_per_item_is_refused(digits):
    X, y = digits
    several = SupervisedQuantizer(2, n_codewords=16, random_state=0).fit(X[:300], np.eye(10)[y[:300]])
    with pytest.raises(InputError, match="one label, not several"):
        several.extend(X[:4], np.eye(11)[[10] * 4])


def test_the_probability_of_untrained_classes_is_divided_among_added_ones_and_others():
    means = np.array([[3.0, 3.0], [3.0, 0.0], [0.0, 3.0]], dtype=np.float32)  # the first was trained on
    by_place = class_logits(means, np.eye(2, dtype=np.float32) / 4)
    z = np.array([[3.0, 0.0], [0.0, 3.0], [-3.0, -3.0], [3.0, 3.0]], dtype=np.float32)
    p = np.full((4, 1), 1.0, dtype=np.float32)
    u = np.array([0.8, 0.5, 0.8, 0.8], dtype=np.float32)
    labels, left = divided(p, u, z, by_place, slice(1, None))
    np.testing.assert_allclose(labels.sum(axis=1), 1, rtol=1e-5)
    joint = (1 - left)[:, None] * labels
    np.testing.assert_allclose(joint[:, 0], 1 - u, rtol=1e-4)  # trained classes keep their probability
    assert joint[0, 1] > 0.5 > joint[0, 2]
    assert joint[1, 2] > joint[1, 1]
    assert left[2] > 0.7  # near none of them
    assert left[3] > 0.5  # near a trained one


@pytest.mark.parametrize("several", [False, True])
def test_the_mean_of_a_class_is_that_of_its_rows(rng, several):
    z = rng.normal(size=(50, 3))
    carried = rng.uniform(size=(50, 4)) < 0.4 if several else np.eye(4, dtype=bool)[rng.integers(4, size=50)]
    labels = read_labels(carried.astype(int) if several else carried.argmax(axis=1))
    means = mean_positions(z, labels)
    for each in range(4):
        np.testing.assert_allclose(means[each], z[carried[:, each]].mean(axis=0), rtol=1e-5)
