"""The active set: it holds the most violated triplets of its parts."""

import numpy as np
import pytest

from supquant.inputs.labels import read_labels
from supquant.parallel import row_blocks
from supquant_lab.triplets import objective
from supquant_lab.triplets.objective import choose_triplets, most_violated, part_size


@pytest.fixture(params=["one label", "several labels"])
def labelled(request):
    rng = np.random.default_rng(3)
    S = rng.normal(size=(30, 4))
    if request.param == "one label":
        y = rng.integers(3, size=30)
        return S, read_labels(y), y[:, None] == y
    Y = (rng.random((30, 4)) < 0.3).astype(int)
    Y[:2, :2] = np.eye(2)
    return S, read_labels(Y), Y @ Y.T > 0


def violation(S, i, j, o):
    return ((S[i] - S[j]) ** 2).sum() - ((S[i] - S[o]) ** 2).sum()


def all_triplets(similar, i, part):
    return [(i, j, o) for j in part for o in part if j != i and similar[i, j] and not similar[i, o]]


@pytest.mark.parametrize("n_parts", [1, 3])
def test_of_every_part_the_most_violated_triplet_is_found(labelled, n_parts):
    S, labels, similar = labelled
    parts = np.array_split(np.random.default_rng(0).permutation(30), n_parts)
    found = most_violated(S, labels, (5, 20), parts)
    want = []
    for i in range(5, 20):
        for part in parts:
            some = all_triplets(similar, i, part)
            if some:
                want.append(max(some, key=lambda triplet: violation(S, *triplet)))
    got = list(zip(found.anchor.tolist(), found.similar.tolist(), found.other.tolist(), strict=True))
    assert len(got) > 10
    assert got == [tuple(map(int, triplet)) for triplet in want]


def test_with_all_rows_in_one_part_it_is_the_most_violated_of_all(labelled, monkeypatch):
    S, labels, similar = labelled
    monkeypatch.setattr(objective, "SIMILAR_PER_PART", 1000)
    found = choose_triplets(S, labels, 5, np.random.default_rng(0))
    assert len(found.anchor) == len(np.unique(found.anchor))
    for i, j, o in zip(found.anchor, found.similar, found.other, strict=True):
        some = all_triplets(similar, i, range(30))
        assert violation(S, i, j, o) == pytest.approx(max(violation(S, *triplet) for triplet in some))


def test_rows_draw_parts_of_their_block_and_get_as_many_triplets_as_there_are_parts(rng):
    y = np.arange(900) % 3
    S, labels = rng.normal(size=(900, 2)), read_labels(y)
    assert part_size(labels) == 6
    found = choose_triplets(S, labels, 7, np.random.default_rng(0))
    assert (y[found.anchor] == y[found.similar]).all()
    assert (y[found.anchor] != y[found.other]).all()
    assert (found.anchor != found.similar).all()
    assert (np.diff(found.anchor) >= 0).all()
    counts = np.bincount(found.anchor, minlength=900)
    assert counts.max() == 7
    assert counts.mean() > 6  # a part of six lacks a similar row in one of eleven cases
    partners = [
        set(found.other[(found.anchor >= start) & (found.anchor < stop)])
        for start, stop in row_blocks(900, objective.BLOCK_ROWS)
    ]
    assert all(not one & other for k, one in enumerate(partners) for other in partners[:k])


def test_the_same_seed_gives_the_same_triplets_whatever_the_threads(rng):
    S, labels = rng.normal(size=(700, 3)), read_labels(np.arange(700) % 5)
    one, two, other = (
        choose_triplets(S, labels, 4, np.random.default_rng(seed), n_jobs)
        for seed, n_jobs in ((0, 1), (0, 2), (1, 1))
    )
    for name in ("anchor", "similar", "other"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert not np.array_equal(one.other, other.other)


def test_a_row_without_any_similar_or_other_one_gets_no_triplet():
    Y = np.array(
        [[1, 1], [1, 0], [0, 1], [0, 0], [1, 1]]
    )  # rows 0 and 4: the only other one is 3; 3 is similar to none
    found = choose_triplets(np.arange(5.0)[:, None], read_labels(Y), 1, np.random.default_rng(0))
    assert 3 not in found.anchor
    assert set(found.other[np.isin(found.anchor, [0, 4])]) <= {3}
    alone = choose_triplets(np.arange(3.0)[:, None], read_labels([0, 1, 2]), 1, np.random.default_rng(0))
    assert len(alone.anchor) == 0
