"""Classes that nobody has labelled: groups of rows without labels, found by the default fit and found again in other rows."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from supquant import CodeIndex, FileFormatError, InputError, SupervisedQuantizer, load_model
from supquant.model.discovery import MIN_AGREEMENT, FoundClasses, assign, consensus

KNOWN, NEW = 6, 2
WIDTH = 24


def draw(seed, rows_per_class):
    """Rows of eight separate classes, the last two of which are never labelled."""
    means = np.random.default_rng(0).normal(size=(KNOWN + NEW, WIDTH))
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(KNOWN + NEW), rows_per_class))
    return (means[y] + rng.normal(0, 0.35, (len(y), WIDTH))).astype(np.float32), y


@pytest.fixture(scope="module")
def planted():
    """Rows, their true classes, and the labels that are given: half of those of known classes."""
    X, y = draw(1, 120)
    given = (y < KNOWN) & (np.arange(len(y)) % 2 == 0)
    return X, y, [f"class {label}" if known else None for label, known in zip(y, given, strict=True)]


def fitted(planted, **parameters):
    X, _, labels = planted
    given = {"n_codebooks": 4, "n_codewords": 64, "random_state": 0, **parameters}
    return SupervisedQuantizer(**given).fit(X, labels)


@pytest.fixture(scope="module")
def sq(planted):
    return fitted(planted)


@pytest.fixture(scope="module")
def found(sq):
    assert isinstance(sq.found_, FoundClasses)
    return sq.found_


def test_each_planted_class_is_a_group_of_its_own(planted, found):
    _, y, labels = planted
    assert len(found) == NEW
    classes = [np.unique(y[members]) for members in found.members]
    assert sorted(each.tolist() for each in classes) == [[KNOWN], [KNOWN + 1]]
    assert all(labels[row] is None for row in found.rows)
    assert (found.sizes >= 110).all()
    assert found.n_rows == sum(label is None for label in labels)


def test_the_largest_group_and_its_most_typical_members_come_first(planted, sq, found):
    X = planted[0]
    assert (np.diff(found.sizes) <= 0).all()
    np.testing.assert_array_equal(found.sizes, [len(members) for members in found.members])
    for members, typical in zip(found.members, found.typical, strict=True):
        np.testing.assert_array_equal(typical, members[:10])
        discovered = sq.codec_.discover(X[members])
        typicality = discovered.agreement * discovered.novelty
        assert (np.diff(typicality) <= 1e-6).all()


def test_sureness_lies_between_zero_and_one(found):
    for values in (found.agreement, found.novelty):
        assert ((values > 0.5) & (values <= 1)).all()


def test_the_nearest_known_class_is_the_most_probable_one(planted, sq, found):
    X = planted[0]
    for number, members in enumerate(found.members):
        p = sq.predict_proba(X[members]).mean(axis=0)
        assert found.nearest[number, 0] == sq.classes_[p.argmax()]
        assert found.nearness[number, 0] == pytest.approx(p.max(), abs=1e-5)
    assert found.nearest.shape == found.nearness.shape == (NEW, 3)


def test_rows_of_fit_are_discovered_as_members(planted, sq, found):
    X, _, labels = planted
    groups = sq.discover(X)
    expected = np.full(len(X), -1)
    for number, members in enumerate(found.members):
        expected[members] = number
    unlabelled = np.array([label is None for label in labels])
    np.testing.assert_array_equal(groups[unlabelled], expected[unlabelled])


def test_other_rows_are_discovered_and_known_classes_are_none(sq, found, planted):
    X, y = draw(2, 40)
    groups = sq.discover(X)
    of_group = [planted[1][members[0]] for members in found.members]
    new = y >= KNOWN
    assert groups.dtype == np.int64
    assert np.mean(groups[~new] == -1) > 0.97
    assert np.mean(groups[new] == [of_group.index(each) for each in y[new]]) > 0.9


def test_rows_unlike_any_group_belong_to_none():
    centres = np.float32([[0.9, 0, 0], [0, 0.9, 0]])
    rows = np.float32([[1, 0, 0], [0, 0, 1], [0, MIN_AGREEMENT, 1]])
    found = assign(rows, np.float32([0.9, 0.9, 0.9]), centres)
    np.testing.assert_array_equal(found.groups, [0, -1, -1])


def test_a_row_that_looks_known_belongs_to_none():
    found = assign(np.float32([[1, 0], [1, 0]]), np.float32([0.51, 0.5]), np.float32([[1, 0]]))
    np.testing.assert_array_equal(found.groups, [0, -1])


def test_groups_are_joined_while_their_rows_agree():
    angles = np.concatenate([np.linspace(0, 0.3, 8), np.linspace(1.2, 1.5, 9)])
    rows = np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32)
    assert len(consensus(rows)) == 1  # the cosine of the middle ones is 0.36
    far = np.hstack([rows * (angles < 1)[:, None], rows * (angles > 1)[:, None]])
    centres = consensus(far)
    expected = np.array([far[8:].mean(axis=0), far[:8].mean(axis=0)])
    np.testing.assert_allclose(centres[np.argsort(centres[:, 0])], expected, atol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_few_rows_are_no_group(n):
    assert consensus(np.ones((n, 1), dtype=np.float32)).shape == (0, 1)


def test_nothing_is_found_where_nothing_is_new(planted):
    X, y, _ = planted
    X, y = X[y < KNOWN], y[y < KNOWN]
    labels = [label if row % 2 else None for row, label in enumerate(y)]
    sq = SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(X, labels)
    assert sq.n_unlabelled_ >= 200
    assert sq.found_ is None
    np.testing.assert_array_equal(sq.discover(X), np.full(len(X), -1))


def test_nothing_is_found_where_every_row_has_a_label(planted):
    X, y, _ = planted
    sq = SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(X, y)
    assert sq.found_ is None
    assert (sq.discover(X[:10]) == -1).all()


def test_threads_change_nothing(planted, found):
    other = fitted(planted, n_jobs=3).found_
    for name, array in found.arrays().items():
        np.testing.assert_array_equal(array, other.arrays()[name], err_msg=name)


def test_a_file_keeps_found_classes(planted, sq, found, tmp_path):
    sq.save(tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors")
    assert str(loaded.found_) == str(found)
    for name, array in found.arrays().items():
        np.testing.assert_array_equal(array, loaded.found_.arrays()[name], err_msg=name)
    np.testing.assert_array_equal(loaded.found_.nearest, found.nearest)
    np.testing.assert_array_equal(loaded.discover(planted[0]), sq.discover(planted[0]))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(sq)).found_.rows, found.rows)


def test_an_index_keeps_found_classes(planted, sq, tmp_path):
    CodeIndex(sq).add(planted[0][:20]).save(tmp_path / "index")
    codec = CodeIndex.load(tmp_path / "index").codec
    np.testing.assert_array_equal(codec.discover(planted[0]).groups, sq.discover(planted[0]))


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("ends", lambda ends: ends[::-1], "ascending"),
        ("rows", lambda rows: rows[:-1], "ascending"),
        ("rows", lambda rows: -rows, "row numbers"),
        ("nearest_numbers", lambda numbers: numbers + 100, "known classes"),
        ("n_rows", lambda n_rows: n_rows.astype(np.float32), "int64"),
        ("centres", lambda centres: centres[:, :-1], "centres"),
    ],
)
def test_damaged_found_classes_are_refused(sq, found, name, change, problem):
    arrays = found.arrays()
    arrays[name] = np.ascontiguousarray(change(arrays[name]))
    with pytest.raises(InputError, match=problem):
        FoundClasses.from_arrays(arrays, sq.classes_, sq.codec_.map.n_likeness)


def test_a_file_with_damaged_found_classes_is_refused(sq, found, tmp_path):
    damaged = replace(found, ends=found.ends[::-1])
    replace(sq.codec_, found=damaged).save(tmp_path / "codec", kind=sq._file_kind)
    with pytest.raises(FileFormatError, match="ascending"):
        SupervisedQuantizer.load(tmp_path / "codec")


def test_a_longer_code_keeps_the_found_classes_of_the_shorter_one(planted, sq, found):
    longer = SupervisedQuantizer(6, n_codewords=64, init=sq, random_state=0).fit(planted[0], planted[2])
    np.testing.assert_array_equal(longer.found_.rows, found.rows)


def test_a_named_class_is_found_no_more(planted, found):
    X, y, _ = planted
    sq = fitted(planted)
    members = found.members[0]
    sq.extend(X[members[:20]], ["named"] * 20)
    others = np.setdiff1d(np.flatnonzero(y == y[members[0]]), members[:20])
    assert np.mean(sq.predict(X[others]) == "named") > 0.9
    assert np.mean(sq.discover(X[others]) == -1) > 0.9
    kept = np.flatnonzero(y == y[found.members[1][0]])
    assert np.mean(sq.discover(X[kept]) == 1) > 0.9


def test_the_table_has_a_line_for_each_group(found):
    lines = str(found).splitlines()
    assert lines[0] == f"FoundClasses: 2 with {len(found.rows)} of {found.n_rows} rows without labels"
    assert len(lines) == 2 + NEW
    assert found.nearest[0, 0] in lines[2]


def test_codes_alone_tell_the_group_of_an_item_and_labels_tell_that_there_is_none(planted, sq):
    X, y, _ = planted
    longer = fitted(planted, n_codebooks=8)
    by_vectors, by_codes = longer.discover(X), longer.codec_.discover_codes(longer.encode(X))
    assert np.mean(by_vectors == by_codes.groups) > 0.97
    known = y < KNOWN
    labels = [f"class {label}" for label in y[known]]
    assert (longer.codec_.discover_codes(longer.encode(X[known], labels)).groups == -1).all()
    assert sq.codec_.discover_codes(sq.encode(X[:0])).groups.shape == (0,)


def test_items_of_an_index_name_a_class_by_their_codes(planted):
    X, y, _ = planted
    sq = fitted(planted, n_codebooks=8)
    index = CodeIndex(sq).add(X)
    before = index.codes(np.arange(len(X)))
    members = sq.found_.members[0][:30]
    assert index.extend(members, ["named"] * 30) is index
    np.testing.assert_array_equal(index.codes(np.arange(len(X))), before)
    assert index.codec.classes.tolist() == [*sq.classes_.tolist(), "named"]
    assert "named" not in sq.classes_
    new = np.flatnonzero(y == y[members[0]])
    proba = index.codec.predict_proba(X[new])
    assert np.mean(proba.argmax(axis=1) == KNOWN) > 0.9
    ids = index.search(X[new[:10]], 60)[1]
    assert np.mean(y[ids] == y[members[0]]) > 0.9
    left = index.codec.discover_codes(before).groups
    assert np.mean(left[new] == -1) > 0.9
    with pytest.raises(InputError, match="which the model knows"):
        index.extend(members, ["named"] * 30)
    with pytest.raises(InputError, match="not in the index"):
        index.extend([10**6], ["other"])


def test_a_class_that_gets_a_name_leaves_the_others_their_rows():
    # Eight found classes among twenty known ones, so close together that the ridges of their means overlap.
    rng = np.random.default_rng(3)
    means = rng.normal(size=(28, 8))
    y = rng.permutation(np.repeat(np.arange(28), 60))
    X = (means[y] + rng.normal(0, 0.4, (len(y), 8))).astype(np.float32)
    labels = [int(label) if label < 20 and row % 2 else None for row, label in enumerate(y)]
    sq = SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(X, labels)
    before = np.bincount(sq.discover(X) + 1)[1:]
    named = sq.found_.members[0]
    sq.extend(X[named], np.full(len(named), 99))
    after = np.bincount(sq.discover(X) + 1, minlength=len(before) + 1)[1:]
    assert after[0] < 0.1 * before[0]
    assert (after[1:] > 0.9 * before[1:]).all()
