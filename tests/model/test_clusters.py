"""The memberships of vectors in clusterings."""

from dataclasses import replace

import numpy as np
import pytest

from supquant.codec.gaussian_map import GaussianMap
from supquant.errors import InputError
from supquant.model.clusters import Clusters, cluster_powers, clusters_from_arrays, unit_positions

ENDS = np.array([4, 5, 13])
TEMPERATURE = 20.0


@pytest.fixture
def clusters(rng):
    """Three clusterings of four, one and eight columns, with centres in six dimensions."""
    centres = unit_positions(rng.normal(size=(13, 6)).astype(np.float32))
    return Clusters(GaussianMap(centres, TEMPERATURE**-0.5), rng.normal(size=13).astype(np.float32), ENDS)


@pytest.fixture
def z(rng):
    """Positions of forty rows, of which the first is zero."""
    z = 3 * rng.normal(size=(40, 6)).astype(np.float32)
    z[0] = 0
    return z


def test_memberships_of_a_row_in_each_clustering_sum_to_one(clusters, z):
    memberships = clusters.memberships(z)
    assert (memberships >= 0).all()
    for columns in np.split(memberships, ENDS[:-1], axis=1):
        np.testing.assert_allclose(columns.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(memberships[:, 4], 1)  # the clustering of one column
    np.testing.assert_allclose(memberships[0, :4], 1 / 4, rtol=1e-5)


def test_memberships_are_a_softmax_of_cosines(clusters, z):
    cosines = unit_positions(z) @ clusters.kernel.anchors.T
    for found, own in zip(
        np.split(clusters.memberships(z), ENDS[:-1], axis=1),
        np.split(cosines, ENDS[:-1], axis=1),
        strict=True,
    ):
        powers = np.exp(TEMPERATURE * own.astype(np.float64))
        np.testing.assert_allclose(found, powers / powers.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-6)


def test_the_length_of_a_position_does_not_change_memberships(clusters, z):
    np.testing.assert_allclose(clusters.memberships(9 * z), clusters.memberships(z), rtol=1e-4, atol=1e-7)


def test_a_row_that_is_a_member_of_one_column_is_most_like_rows_of_the_same_column():
    powers = cluster_powers(np.float32([[1, 0], [0.5, 0.5], [0, 1]]))
    np.testing.assert_array_equal((powers @ powers.T).argmax(axis=1)[[0, 2]], [0, 2])
    assert powers[1] @ powers[1] > 0.5  # less than for a sure row, more than memberships alone would give


def test_clusterings_are_read_from_their_arrays(clusters, z):
    arrays = clusters.arrays()
    assert all(name.startswith("clusters.") for name in arrays)
    twin = clusters_from_arrays(arrays | {"mean": np.zeros(6, np.float32)}, 6)
    np.testing.assert_array_equal(twin.memberships(z), clusters.memberships(z), strict=True)
    np.testing.assert_array_equal(twin.ratios, clusters.ratios, strict=True)
    np.testing.assert_array_equal(twin.ends, clusters.ends, strict=True)
    assert clusters_from_arrays({"mean": np.zeros(6, np.float32)}, 6) is None


@pytest.mark.parametrize("ends", [[4, 4, 13], [5, 4, 13], [4, 5, 12], [0, 5, 13], []])
def test_columns_that_are_in_no_clustering_or_in_two_are_refused(clusters, ends):
    wrong = replace(clusters, ends=np.array(ends, dtype=np.int64))
    with pytest.raises(InputError, match="ends of clusterings"):
        clusters_from_arrays(wrong.arrays(), 6)


def test_centres_for_positions_of_another_width_are_refused(clusters):
    with pytest.raises(InputError, match=r"centres must have the shape \(13, 5\), got \(13, 6\)"):
        clusters_from_arrays(clusters.arrays(), 5)
