"""Where work is done, without a GPU: the choice, its end, and what is said when there is none."""

import os

import numpy as np
import pytest

import supquant
from supquant import DeviceError, InputError, kernels
from supquant.inputs.gpu_arrays import copy_to_host, is_on_gpu
from supquant.inputs.validation import check_vectors
from supquant.kernels import device


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(device, "why_no_gpu", lambda: "there is none")


@pytest.fixture
def some_gpu(monkeypatch):
    monkeypatch.setattr(device, "why_no_gpu", lambda: "")
    monkeypatch.setattr(device, "cuda", lambda: kernels.reference)


class OnGpu:
    """An array as CuPy has it."""

    def __init__(self, array):
        self.array = array

    def __len__(self):
        return len(self.array)

    def __dlpack_device__(self):
        return 2, 0

    def get(self):
        return self.array


def test_a_gpu_that_is_asked_for_must_be_there(no_gpu):
    with pytest.raises(DeviceError, match="there is none"):
        supquant.use_device("cuda")
    assert device.device_name() == "cpu"
    with supquant.use_device("auto"):
        assert kernels.scanning() is kernels.active()


def test_a_choice_ends_with_its_statement(some_gpu):
    with supquant.use_device("auto"):
        assert device.device_name() == "cuda"
        with supquant.use_device("cpu"):
            assert kernels.scanning() is kernels.active()
        assert kernels.scanning() is kernels.reference
    assert device.device_name() == "cpu"


def test_only_known_devices_are_taken():
    with pytest.raises(InputError, match="got 'gpu'"):
        supquant.use_device("gpu")


def test_a_forked_child_works_on_the_cpu(some_gpu, fork):
    with supquant.use_device("cuda"):
        child = fork(lambda: os._exit(device.device_name() != "cpu"))
    assert os.waitpid(child, 0)[1] == 0


def test_vectors_on_a_gpu_are_copied_where_the_cpu_needs_them():
    X = np.ones((3, 2), dtype=np.float32)
    assert is_on_gpu(OnGpu(X))
    assert not is_on_gpu(X)
    assert copy_to_host(OnGpu(X)) is X
    assert check_vectors(OnGpu(X)) is X


def test_a_codec_says_what_a_gpu_cannot_encode(some_gpu):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(80, 4)), rng.integers(0, 2, size=(80, 3))
    codec = supquant.SupervisedQuantizer(2, n_codewords=8, random_state=0).fit(X, Y).codec_
    with pytest.raises(DeviceError, match="items with labels that have no codewords of their own"):
        codec.encode_items(OnGpu(X), Y)
