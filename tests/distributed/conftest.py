"""Workers of both kinds, started once: two local processes, and two actors of one small Ray cluster.

They end with the tests of this folder, because a cluster is busy even when nobody asks it anything.
"""

import os
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from supquant import ProductQuantizer
from supquant.distributed import ProcessWorkers, RayWorkers


@pytest.fixture(scope="package")
def processes():
    with ProcessWorkers(2) as workers:
        yield workers


@pytest.fixture(scope="package")
def ray_cluster():
    """A cluster of two processors on this machine; the tests are skipped where Ray has no wheel."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import ray

    support = os.pathsep.join(path for path in os.sys.path if path)
    ray.init(
        address="local",  # never a cluster that happens to run on this machine
        num_cpus=4,
        include_dashboard=False,
        object_store_memory=100 << 20,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": support}},
    )
    yield ray
    ray.shutdown()


@pytest.fixture(scope="package")
def actors(ray_cluster):
    with RayWorkers(2) as workers:
        yield workers


@pytest.fixture(params=["processes", "actors"])
def workers(request):
    """Return workers of either kind."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def vectors():
    """Vectors (1000, 8) float32."""
    X = np.random.default_rng(0).normal(size=(1000, 8)).astype(np.float32)
    X.flags.writeable = False
    return X


@pytest.fixture(scope="session")
def product(vectors):
    """A small fitted quantizer."""
    return ProductQuantizer(4, n_codewords=16, random_state=0).fit(vectors)


def write_vectors(path, X, **columns):
    """Write a Parquet file of vectors, in row groups of 100 rows."""
    X = np.ascontiguousarray(X)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    pq.write_table(pa.table({**columns, "vector": lists}), path, row_group_size=100)


@pytest.fixture(scope="session")
def folder(vectors, tmp_path_factory):
    """A folder of four Parquet files of 250 vectors each, with ids from 5000 on."""
    path = tmp_path_factory.mktemp("vectors")
    for number in range(4):
        rows = slice(250 * number, 250 * number + 250)
        write_vectors(path / f"part-{number}.parquet", vectors[rows], id=np.arange(1000)[rows] + 5000)
    return path
