"""The CUDA sources compile for GPUs of several generations, which needs a compiler (pip install nvidia-cuda-nvrtc) and no GPU."""

import ctypes
from importlib.metadata import PackageNotFoundError, files
from importlib.resources import files as resources

import pytest

SEARCHES = [
    {"M": 8, "K": 256, "THREADS": 256, "WIDTH": 8, "PLAIN": 1},
    {"M": 2, "K": 17, "THREADS": 32, "WIDTH": 1, "PLAIN": 0},
    {"M": 64, "K": 2, "THREADS": 64, "WIDTH": 64, "PLAIN": 0},
]
SCANS = [{"M": M, "K": 256, "COPIES": 2, "GROUP_COPIES": 1} for M in (1, 7, 8, 64)]
CASES = [
    *((name, {}) for name in ("codes", "features", "products", "select")),
    *(("search", numbers) for numbers in SEARCHES),
    *(("scan", numbers) for numbers in SCANS),
]


@pytest.fixture(scope="module")
def compiler():
    try:
        found = [file for file in files("nvidia-cuda-nvrtc") or () if file.name.startswith("libnvrtc.so")]
    except PackageNotFoundError:
        pytest.skip("nvidia-cuda-nvrtc is not installed: nothing compiles CUDA here")
    return ctypes.CDLL(str(found[0].locate()))


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize(("name", "numbers"), CASES)
def test_source_compiles_without_a_warning(compiler, name, numbers, architecture):
    source = resources("supquant.kernels").joinpath(f"cuda/sources/{name}.cu").read_bytes()
    options = ["--std=c++17", "--fmad=false", "-ftz=true", "-default-device", f"-arch={architecture}"]
    options += [f"-D{macro}={value}" for macro, value in numbers.items()]
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert compiler.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), 0, None, None) == 0
    given = (ctypes.c_char_p * len(options))(*map(str.encode, options))
    failed = compiler.nvrtcCompileProgram(program, len(options), given)
    compiler.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    compiler.nvrtcGetProgramLog(program, log)
    assert (failed, log.value.decode()) == (0, "")
    compiler.nvrtcDestroyProgram(ctypes.byref(program))
