"""Models are fitted on a GPU as well as on the CPU, and the same seed gives the same model there."""

import numpy as np
import pytest
from noisy_classes import draw_classes

import supquant
from supquant import LabelKernel, SupervisedQuantizer
from supquant.kernels import device, fitting
from supquant.model import device_rows


@pytest.fixture(params=["large work", "all work"])
def small_too(request, monkeypatch):
    """Let the GPU take small work, too, so that every step is there."""
    if request.param == "all work":
        monkeypatch.setattr(fitting, "MIN_WORK", 0)
        monkeypatch.setattr(device_rows, "MIN_FEATURES", 0)


@pytest.mark.parametrize("kind", ["all", "some", "several", "no anchors", "far from zero"])
def test_a_fit_on_the_gpu(kind, small_too, tmp_path):
    X, y = draw_classes(10, 4000, 64, spread=0.5)
    labels = y
    if kind == "some":
        labels = [label if label < 8 and row % 2 else None for row, label in enumerate(y.tolist())]
    if kind == "several":
        labels = (np.arange(5) == y[:, None] % 5) | (np.arange(5) == y[:, None] // 2)
    if kind == "far from zero":
        X = X + np.float32(1e4)
    model = SupervisedQuantizer(
        8, features=LabelKernel(0) if kind == "no anchors" else "auto", random_state=0
    )
    on_cpu = model.fit(X, labels).summary_
    stored = []
    with supquant.use_device("cuda"):
        for turn in range(2):
            model.fit(X, labels).save(tmp_path / str(turn))
            stored.append((tmp_path / str(turn)).read_bytes())
    assert device.device_name() == "cpu"
    assert stored[0] == stored[1]
    assert model.summary_.map_labelled == pytest.approx(on_cpu.map_labelled, abs=0.002)
    assert model.summary_.map_unlabelled == pytest.approx(on_cpu.map_unlabelled, abs=0.01)
    assert (model.encode(X) == model.encode(X)).all()


def test_an_indefinite_matrix_has_no_factor(gpu):
    matrix = gpu.arrays.eye(300)
    assert gpu.cholesky(matrix) is not None
    for place in (0, 150, 299):
        indefinite = matrix.copy()
        indefinite[place, place] = -1
        assert gpu.cholesky(indefinite) is None
