import numpy as np
import pytest

from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant_lab.datasets import Dataset
from supquant_lab.datasets.dataset import centred_unit_length
from supquant_lab.problem import pose
from supquant_lab.splits import default_queries, resolve_fit_rows, split_rows


def several_classes(n_rows, n_classes=10):
    return read_labels(np.arange(n_rows) % n_classes)


@pytest.fixture(scope="module")
def several_labels():
    """Return 2,000 rows of 8 labels; only twelve rows have the last one."""
    Y = (np.random.default_rng(0).random((2000, 8)) < 0.2).astype(np.uint8)
    Y[:, 7] = np.arange(2000) < 12
    Y[Y.sum(axis=1) == 0, 0] = 1
    return Y


def test_queries_are_the_head_of_the_seeded_permutation():
    order = np.random.default_rng(7).permutation(500)
    split = split_rows(several_classes(500), seed=7)
    np.testing.assert_array_equal(split.queries, order[:50])
    np.testing.assert_array_equal(split.database, order[50:])


def test_paper_database_is_the_training_set():
    split = split_rows(several_classes(100), protocol="paper")
    np.testing.assert_array_equal(split.training, split.database)


def test_unlabelled_rows_are_halved_and_disjoint():
    split = split_rows(several_classes(101), protocol="unlabelled", n_queries=10)
    parts = (split.queries, split.training, split.database)
    assert [len(part) for part in parts] == [10, 45, 46]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(101))


def test_unseen_classes_are_the_last_ones_and_nothing_is_trained_on_them():
    labels = read_labels(np.random.default_rng(1).permutation(np.arange(1000) % 10))
    split = split_rows(labels, protocol="unseen", seed=3)
    assert set(labels.indices[split.training]) == set(range(7))
    assert set(labels.indices[split.queries]) == set(labels.indices[split.database]) == {7, 8, 9}
    parts = (split.queries, split.training, split.database)
    assert [len(part) for part in parts] == [30, 700, 270]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(1000))
    order = np.random.default_rng(3).permutation(1000)
    np.testing.assert_array_equal(split.training, order[labels.indices[order] < 7])


@pytest.mark.parametrize(("n_classes", "n_unseen"), [(3, 1), (4, 1), (5, 2), (20, 6)])
def test_three_classes_of_ten_are_unseen(n_classes, n_unseen):
    labels = several_classes(600, n_classes)
    split = split_rows(labels, protocol="unseen")
    assert len(set(labels.indices[split.database])) == n_unseen


def test_unseen_classes_need_one_label_a_row_and_three_classes(several_labels):
    with pytest.raises(InputError, match="one label per row"):
        split_rows(read_labels(several_labels), protocol="unseen")
    with pytest.raises(InputError, match="at least 3 classes"):
        split_rows(several_classes(100, 2), protocol="unseen")


def test_queries_of_each_label_are_distinct_and_its_first_in_random_order(several_labels):
    labels = read_labels(several_labels)
    split = split_rows(labels, seed=5, queries_per_label=20)
    order = np.random.default_rng(5).permutation(2000)
    taken = []
    for label in range(8):
        rows = [row for row in order if several_labels[row, label] and row not in taken]
        taken += rows[:20]
    assert set(split.queries) == set(taken)
    assert len(split.queries) == len(set(split.queries.tolist())) == len(taken)
    assert len(taken) < 160  # the rare label has fewer than 20
    assert not set(split.queries) & set(split.database)


def test_queries_of_each_label_never_eat_up_a_small_data_set(several_labels):
    split = split_rows(read_labels(several_labels[:200]), queries_per_label=100)
    assert 8 <= len(split.queries) <= 40


def test_a_number_of_queries_goes_before_queries_of_each_label(several_labels):
    split = split_rows(read_labels(several_labels), queries_per_label=20, n_queries=7)
    assert len(split.queries) == 7


@pytest.mark.parametrize("protocol", ["paper", "unlabelled"])
def test_published_queries_are_the_last_rows_and_the_others_keep_their_order(protocol):
    split = split_rows(several_classes(100), protocol=protocol, n_queries_last=20)
    np.testing.assert_array_equal(split.queries, np.arange(80, 100))
    np.testing.assert_array_equal(split.training, np.arange(80 if protocol == "paper" else 40))
    assert split.database[-1] == 79


def test_some_of_the_published_queries_leave_the_others_out():
    splits = [
        split_rows(several_classes(100), n_queries_last=20, n_queries=5, seed=seed) for seed in (0, 0, 1)
    ]
    for split in splits:
        assert len(set(split.queries.tolist())) == 5
        assert split.queries.min() >= 80
        np.testing.assert_array_equal(split.training, np.arange(80))
    np.testing.assert_array_equal(splits[0].queries, splits[1].queries)
    assert set(splits[0].queries) != set(splits[2].queries)


def test_published_queries_never_train_under_unseen():
    split = split_rows(several_classes(100), protocol="unseen", n_queries_last=20)
    np.testing.assert_array_equal(split.queries, [87, 88, 89, 97, 98, 99])
    assert split.training.max() < 80
    assert split.database.max() < 80


@pytest.fixture(scope="module")
def ten_classes():
    return read_labels(np.random.default_rng(1).permutation(np.arange(1000) % 10))


def test_open_has_as_many_queries_of_new_classes_as_of_known_ones(ten_classes):
    split = split_rows(ten_classes, protocol="open", seed=3)
    order = np.random.default_rng(3).permutation(1000)
    known = ten_classes.indices[order] < 7
    asked = [*order[known][:50], *order[~known][:50]]
    np.testing.assert_array_equal(split.queries, [row for row in order if row in asked])


def test_open_trains_on_half_of_the_other_rows_of_known_classes_and_mixes_the_rest(ten_classes):
    split = split_rows(ten_classes, protocol="open", seed=3)
    order = [row for row in np.random.default_rng(3).permutation(1000) if row not in split.queries]
    known = [row for row in order if ten_classes.indices[row] < 7]
    np.testing.assert_array_equal(split.training, known[: (700 - 50) // 2])
    np.testing.assert_array_equal(split.database, [row for row in order if row not in split.training])
    is_new = ten_classes.indices[split.database] >= 7
    assert is_new.sum() == 250
    assert np.flatnonzero(np.diff(is_new)).size > 50  # the two kinds are mixed
    parts = (split.queries, split.training, split.database)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(1000))


@pytest.mark.parametrize(("n_queries", "n_each"), [(2, 1), (21, 10), (400, 200), (None, 50)])
def test_half_of_the_queries_of_open_are_of_new_classes(ten_classes, n_queries, n_each):
    split = split_rows(ten_classes, protocol="open", n_queries=n_queries)
    is_new = ten_classes.indices[split.queries] >= 7
    assert (is_new.sum(), (~is_new).sum()) == (n_each, n_each)


def test_a_large_data_set_has_five_hundred_queries_of_each_kind():
    split = split_rows(several_classes(20_000), protocol="open")
    assert np.bincount(split.queries % 10 >= 7).tolist() == [500, 500]


def test_published_queries_alone_ask_under_open_and_never_train():
    splits = [
        split_rows(several_classes(100), protocol="open", n_queries_last=20, seed=seed) for seed in (0, 0, 1)
    ]
    for split in splits:
        assert split.queries.min() >= 80
        assert (split.queries % 10 >= 7).sum() == len(split.queries) / 2 == 5
        np.testing.assert_array_equal(split.training, [row for row in range(40) if row % 10 < 7])
        np.testing.assert_array_equal(split.database, np.setdiff1d(np.arange(80), split.training))
    np.testing.assert_array_equal(splits[0].queries, splits[1].queries)
    assert set(splits[0].queries) != set(splits[2].queries)


@pytest.mark.parametrize("n_queries", [0, 1, 600, 10_000])
def test_impossible_numbers_of_open_queries_are_refused(ten_classes, n_queries):
    with pytest.raises(InputError, match=f"between 2 and 596 under protocol open.*got {n_queries}"):
        split_rows(ten_classes, protocol="open", n_queries=n_queries)


def test_open_needs_one_label_a_row_and_three_classes(several_labels):
    with pytest.raises(InputError, match="protocol open is for one label per row"):
        split_rows(read_labels(several_labels), protocol="open")
    with pytest.raises(InputError, match="protocol open needs at least 3 classes"):
        split_rows(several_classes(100, 2), protocol="open")


@pytest.mark.parametrize(
    ("protocol", "fit_rows", "given"),
    [
        ("paper", None, "labelled"),
        ("unlabelled", None, "labelled"),
        ("unseen", None, "labelled"),
        ("open", None, "all"),
        ("paper", "all", "labelled"),  # the database is the training set
        ("unlabelled", "all", "all"),
        ("unseen", "all", "all"),
        ("open", "labelled", "labelled"),
    ],
)
def test_fit_is_given_the_database_without_labels_where_all_rows_are_asked_for(
    ten_classes, protocol, fit_rows, given
):
    split = split_rows(ten_classes, protocol=protocol, fit_rows=fit_rows)
    assert split.fit_rows == resolve_fit_rows(protocol, fit_rows) == given
    np.testing.assert_array_equal(split.unlabelled, split.database if given == "all" else [])
    assert not set(split.unlabelled) & {*split.queries, *split.training}


def test_unknown_rows_to_fit_are_refused(ten_classes):
    with pytest.raises(InputError, match="fit_rows"):
        split_rows(ten_classes, fit_rows="some")


def test_number_of_queries():
    assert [default_queries(n) for n in (70_000, 10_000, 9_999, 5)] == [1000, 1000, 999, 1]


@pytest.mark.parametrize("n_queries", [0, 99, 1000])
def test_impossible_number_of_queries_is_refused(n_queries):
    with pytest.raises(InputError, match="between 1 and 98 for 100 rows"):
        split_rows(several_classes(100), n_queries=n_queries)


def test_unknown_protocol_is_refused():
    with pytest.raises(InputError, match="protocol"):
        split_rows(several_classes(100), protocol="transductive")


def test_rows_are_made_ready_by_the_training_rows_alone():
    X = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    dataset = Dataset("four", X, np.arange(200) % 4, centred_unit_length, cut=5)
    problem = pose(dataset, protocol="unlabelled", seed=1)
    split = problem.split
    ready = centred_unit_length(X[split.training])
    np.testing.assert_array_equal(problem.X, ready(X[split.training]))
    np.testing.assert_array_equal(problem.queries, ready(X[split.queries]))
    np.testing.assert_array_equal(problem.database, ready(X[split.database]))
    np.testing.assert_array_equal(problem.database_labels.indices, split.database % 4)
    assert problem.cut == 5
    assert not problem.learned


def test_a_problem_knows_its_new_classes_and_its_rows_without_labels():
    X = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
    dataset = Dataset("ten", X, np.arange(400) % 10, centred_unit_length)
    problem = pose(dataset, protocol="open", seed=1)
    split = problem.split
    np.testing.assert_array_equal(problem.new_queries, split.queries % 10 >= 7)
    np.testing.assert_array_equal(problem.new_items, split.database % 10 >= 7)
    np.testing.assert_array_equal(problem.unlabelled, problem.database)
    np.testing.assert_array_equal(problem.X, centred_unit_length(X[split.training])(X[split.training]))
    assert not problem.learned
    other = pose(dataset, protocol="open", seed=1, fit_rows="labelled")
    assert other.unlabelled.shape == (0, 4)
    np.testing.assert_array_equal(other.database, problem.database)


@pytest.mark.parametrize("protocol", ["paper", "unlabelled", "unseen"])
def test_other_protocols_have_no_new_classes(protocol):
    X = np.random.default_rng(0).normal(size=(400, 4)).astype(np.float32)
    problem = pose(Dataset("ten", X, np.arange(400) % 10, centred_unit_length), protocol=protocol)
    assert problem.new_queries is None
    assert problem.new_items is None
    assert problem.unlabelled.shape == (0, 4)


def test_a_mapped_file_with_fixed_queries_is_not_read_into_memory(tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    dataset = Dataset(
        "mapped",
        X,
        np.arange(300) % 3,
        lambda _rows: lambda rows: np.ascontiguousarray(rows, dtype=np.float32),
        n_queries_last=30,
    )
    problem = pose(dataset)
    assert np.shares_memory(problem.X, X)
    assert problem.database is problem.X
