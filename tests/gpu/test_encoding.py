"""Items are encoded on a GPU as on the CPU."""

import numpy as np
import pytest
from noisy_classes import draw_classes

import supquant
from supquant import DeviceError, InputError
from supquant.kernels import device

SINGLE = ["default", "short", "one byte", "long", "many labels", "new classes", "far from zero"]


def rows_for(name, n=3000):
    n_classes, p = (300, 40) if name == "many labels" else (10, 24)
    X, y = draw_classes(n_classes, n, p, seed=5)
    return (X + np.float32(1e4) if name == "far from zero" else X), y


def share(got, want):
    assert got.dtype == want.dtype == np.uint8
    assert got.shape == want.shape
    return (got == want).all(axis=1).mean()


@pytest.mark.parametrize("missing_labels", ["predict", "drop"])
@pytest.mark.parametrize("name", [*SINGLE, "several labels"])
def test_items_without_labels(models, name, missing_labels):
    codec, (X, _) = models[name].codec_, rows_for(name)
    want = codec.encode_items(X, missing_labels=missing_labels)
    with device.use_device("cuda"):
        got = codec.encode_items(X, missing_labels=missing_labels)
    assert share(got, want) >= 0.999


@pytest.mark.parametrize("name", SINGLE)
def test_items_with_labels_and_some_without(models, name):
    codec, (X, y) = models[name].codec_, rows_for(name)
    y = y % len(codec.classes)
    mixed = [label if row % 3 else None for row, label in enumerate(y.tolist())]
    for labels in (y, mixed):
        want = codec.encode_items(X, labels)
        with device.use_device("cuda"):
            got = codec.encode_items(X, labels)
        assert share(got, want) >= 0.999


@pytest.mark.parametrize("n", [0, 1, 2, 33])
def test_few_items(models, n, on_gpu):
    codec, (X, y) = models["default"].codec_, rows_for("default")
    assert codec.encode_items(X[:n]).shape == (n, 8)
    assert codec.encode_items(X[:n], y[:n]).shape == (n, 8)


def test_more_items_than_one_block(models):
    codec, (X, _) = models["short"].codec_, rows_for("short", 150_000)
    want = codec.encode_items(X)
    with device.use_device("cuda"):
        assert share(codec.encode_items(X), want) >= 0.999


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ">f4", "int16", "longdouble"])
def test_vectors_of_any_type(models, dtype):
    codec, (X, _) = models["default"].codec_, rows_for("default")
    X = X.astype(dtype)
    want = codec.encode_items(X)
    with device.use_device("cuda"):
        assert share(codec.encode_items(X), want) >= 0.999


def test_arrays_of_cupy_stay_on_the_gpu(models):
    import cupy as cp

    codec, (X, y) = models["default"].codec_, rows_for("default")
    for given, labels in (
        (cp.asarray(X), None),
        (cp.asarray(X.astype(np.float16)), None),
        (cp.asarray(X), y),
    ):
        got = codec.encode_items(given, labels)
        assert isinstance(got, cp.ndarray)
        assert share(got.get(), codec.encode_items(given.get(), labels)) >= 0.999


def test_tensors_of_torch_stay_on_the_gpu(models):
    torch = pytest.importorskip("torch")
    codec, (X, _) = models["default"].codec_, rows_for("default")
    tensor = torch.from_numpy(X).cuda().requires_grad_()
    for given in (tensor, tensor.half(), tensor.bfloat16()):
        got = codec.encode_items(given)
        assert isinstance(got, torch.Tensor)
        assert got.is_cuda
        assert share(got.cpu().numpy(), codec.encode_items(given.detach().float().cpu().numpy())) >= 0.999


def test_numbers_that_are_not_finite_are_refused_as_on_the_cpu(models):
    import cupy as cp

    codec, (X, _) = models["default"].codec_, rows_for("default")
    for value in (np.nan, np.inf):
        X[1234, 5] = value
        with pytest.raises(InputError) as on_cpu:
            codec.encode_items(X)
        with device.use_device("cuda"), pytest.raises(InputError) as on_gpu:
            codec.encode_items(X)
        with pytest.raises(InputError) as there:
            codec.encode_items(cp.asarray(X))
        assert str(on_cpu.value) == str(on_gpu.value) == str(there.value)


def test_vectors_of_another_width_are_refused(models):
    import cupy as cp

    with pytest.raises(InputError, match=r"X must have shape \(n, 24\), got \(5, 3\)"):
        models["default"].codec_.encode_items(cp.zeros((5, 3)))


def test_what_a_gpu_cannot_encode_is_encoded_on_the_cpu_unless_it_lies_on_the_gpu(models):
    import cupy as cp

    codec, (X, _) = models["several labels"].codec_, rows_for("several labels", 200)
    Y = (np.abs(X[:, :5]) > 1).astype(int)
    want = codec.encode_items(X, Y)
    with device.use_device("cuda"):
        np.testing.assert_array_equal(codec.encode_items(X, Y), want)
    with pytest.raises(DeviceError, match="labels that have no codewords of their own"):
        codec.encode_items(cp.asarray(X), Y)


def test_a_codec_that_was_used_on_a_gpu_can_be_copied(models, on_gpu):
    import pickle

    codec, (X, _) = models["default"].codec_, rows_for("default", 100)
    codes = codec.encode_items(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(codec)).encode_items(X), codes)


def test_the_choice_ends_with_the_statement():
    with supquant.use_device("auto"):
        assert device.device_name() == "cuda"
    assert device.device_name() == "cpu"
