"""An audit finds planted faults, and says what it cannot judge."""

import numpy as np
import pytest

from supquant import CodeIndex, InputError, ProductQuantizer, audit


def test_wrong_labels_are_listed_first_with_the_right_ones_suggested(planted):
    first = planted.found.suspicious[:31]  # a copy has a wrong label too
    wrong = {*planted.wrong.tolist(), planted.n}
    assert len(wrong & set(first.row.tolist())) >= 29
    right = [line.suggested == planted.truth[line.row] for line in first if line.row in planted.wrong]
    assert np.mean(right) > 0.9
    assert (np.diff(planted.found.suspicious.score) <= 0).all()
    assert all(line.id == f"d{line.row}" for line in first)


def test_planted_copies_are_grouped_and_marked_where_labels_differ(planted):
    groups = {line.row: (line.group, line.conflict) for line in planted.found.duplicates}
    for number, row in enumerate(planted.copied.tolist()):
        assert groups[row] == groups[planted.n + number]
        assert groups[row][1] == (number == 0)
    assert planted.found.duplicates[0].conflict


def test_rows_without_labels_get_suggestions_and_no_doubts(planted):
    suggested = planted.found.of_kind("unlabelled")
    assert sorted(suggested.row.tolist()) == sorted(planted.hidden.tolist())
    assert np.mean([line.suggested == planted.truth[line.row] for line in suggested]) > 0.9
    assert not set(planted.hidden.tolist()) & set(planted.found.suspicious.row.tolist())
    assert planted.found.n_unlabelled == 20


def test_findings_do_not_depend_on_the_number_of_threads(planted):
    again = audit(planted.X, planted.y, ids=[f"d{row}" for row in range(len(planted.X))], n_jobs=2)
    for name, values in planted.found.findings.columns().items():
        assert (
            again.findings[name].tolist() == pytest.approx(values.tolist(), nan_ok=True)
            if (values.dtype.kind == "f")
            else again.findings[name].tolist() == values.tolist()
        )


def test_joined_classes_look_like_two_and_a_split_class_is_confused(digits):
    X, y = digits[0][:900], digits[1][:900]
    joined = np.where(y == 1, 0, y)
    split = np.where((joined == 7) & (np.arange(len(y)) % 2 == 0), 10, joined)
    found = audit(X, split)
    assert found.of_kind("two").label[0] == 0
    assert {found.confused[0].label, found.confused[0].suggested} == {7, 10}
    quality = {line.label: line for line in found.classes}
    assert quality[7].recall < 0.8 < quality[3].recall


def test_noise_looks_like_no_class(digits, rng):
    X, y = digits
    noise = rng.uniform(size=(5, X.shape[1])).astype(np.float32)
    found = audit(np.concatenate([X[:600], noise]), np.concatenate([y[:600], y[:5]]))
    assert set(range(600, 605)) <= set(found.of_kind("strange").row.tolist())


def test_several_labels_a_row_are_judged_one_by_one(clusters):
    X, y = clusters
    Y = np.stack([y == 0, y == 1, y == 2, X[:, 0] > 0], axis=1).astype(int)
    Y[5, (y[5] + 1) % 3] = 1  # a label too many
    Y[6, y[6]] = 0  # a label is forgotten
    found = audit(X, Y)
    assert (5, (y[5] + 1) % 3) in list(zip(found.suspicious.row, found.suspicious.label, strict=True))[:3]
    missing = found.of_kind("missing")
    assert (6, y[6]) in list(zip(missing.row, missing.suggested, strict=True))[:3]


def test_a_label_of_one_row_is_not_judged_but_noted(clusters):
    X, y = clusters
    names = np.array(["a", "b", "c"])[y].astype(object)
    names[7] = "only"
    found = audit(X, names)
    assert 7 not in found.suspicious.row
    assert found.notes == ("1 labels have one row each and cannot be judged: only",)


@pytest.mark.parametrize("n", [2, 3, 5, 11])
def test_tiny_inputs_are_audited(n):
    X = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
    found = audit(X, np.arange(n) % 2)
    assert found.n_rows == n
    assert found.classes.rows.sum() == n


def test_equal_rows_are_one_group_of_duplicates():
    found = audit(np.ones((8, 3)), [0, 1] * 4)
    assert set(found.duplicates.group.tolist()) == {0}
    assert len(found.duplicates) == 8
    assert found.duplicates.conflict.all()


def test_what_cannot_be_audited_is_refused(clusters):
    X, y = clusters
    with pytest.raises(InputError, match="at least 2"):
        audit(X[:1], [0])
    with pytest.raises(InputError, match="single class"):
        audit(X, np.zeros(len(X)))
    with pytest.raises(InputError, match="all 300 labels are missing"):
        audit(X, [None] * len(X))
    with pytest.raises(InputError, match="each of the 300 rows"):
        audit(X, y, ids=[1, 2])
    with pytest.raises(InputError, match="n_neighbours"):
        audit(X, y, n_neighbours=0)
    with pytest.raises(InputError, match="y to be passed"):
        audit(X)


def test_a_model_and_an_index_are_audited_by_their_codes(clusters):
    X, y = clusters
    given = y.copy()
    given[3] = (y[3] + 1) % 3
    model = ProductQuantizer(8, random_state=0).fit(X)
    index = CodeIndex(model).add(X, ids=[f"i{row}" for row in range(len(X))])
    by_model, by_index = audit(model, given), audit(index, given)
    assert by_model.suspicious.row.tolist() == by_index.suspicious.row.tolist()
    assert 3 in by_model.suspicious.row[:3]
    assert by_index.suspicious[0].id == f"i{by_index.suspicious[0].row}"


def test_changed_labels_are_found_among_ambiguous_ones_and_counted(rng):
    X = rng.normal(size=(1200, 8)).astype(np.float32) / 4
    true = np.arange(1200) % 6
    X[np.arange(1200), true] += 1
    given = np.where((true == 0) & (rng.random(1200) < 0.3), 6, true)  # nobody can tell 0 from 6
    wrong = rng.permutation(1200)[:40]
    given[wrong] = (given[wrong] + rng.integers(1, 7, 40)) % 7
    given[wrong[given[wrong] == 6]] = 1
    found = audit(X, given)
    listed = set(found.suspicious.row.tolist())
    assert 30 <= len(listed) <= 50
    assert len(listed & set(wrong.tolist())) >= 0.7 * len(listed)
    assert np.nansum(found.wrong) == pytest.approx(len(listed), abs=1)
    order = np.argsort(-found.wrong)
    assert np.isin(order[:20], wrong).mean() >= 0.95


def test_clean_labels_of_clear_classes_are_hardly_doubted(rng):
    y = np.arange(600) % 5
    X = (np.eye(5)[y] + rng.normal(scale=0.05, size=(600, 5))).astype(np.float32)
    assert len(audit(X, y).suspicious) <= 3


def test_near_duplicates_need_similar_texts(planted):
    texts = [f"what{row} is{row} here" for row in range(len(planted.X))]
    same = planted.copied.tolist()[:4]
    for number, row in enumerate(same):
        texts[planted.n + number] = texts[row].upper()
    found = audit(planted.X, planted.y, texts=texts, n_jobs=1).duplicates
    assert sorted(found.row.tolist()) == sorted([*same, *range(planted.n, planted.n + 4)])
    with pytest.raises(InputError, match="texts must name each of the 1010 rows, got 3"):
        audit(planted.X, planted.y, texts=["a", "b", "c"])


def test_codes_alone_are_duplicates_only_if_they_are_equal(clusters):
    X, y = clusters
    model = ProductQuantizer(2, n_codewords=16, random_state=0).fit(X)
    index = CodeIndex(model).add(X)
    codes = [bytes(each) for each in index.codes(index.ids)]
    found = audit(index, y)
    for group in set(found.duplicates.group.tolist()):
        rows = found.duplicates.row[found.duplicates.group == group].tolist()
        assert len({codes[row] for row in rows}) == 1
    assert len(found.duplicates) == sum(codes.count(each) > 1 for each in codes)
    assert not len(audit(index, y, texts=[f"item{row}" for row in range(len(X))]).duplicates)
