import pytest

from supquant.kernels import device


def test_a_machine_without_a_gpu_is_told_so_in_one_line(run, monkeypatch):
    monkeypatch.setattr(device, "why_no_gpu", lambda: "there is no GPU that CUDA can use here")
    result = run("bench", "gpu")
    assert result.exit_code == 2
    assert result.output.strip() == "Error: there is no GPU that CUDA can use here"


@pytest.mark.skipif(bool(device.why_no_gpu()), reason=device.why_no_gpu() or "there is a GPU")
def test_figures_have_their_limits(run):
    result = run("bench", "gpu", "--quick")
    assert result.exit_code == 0, result.output
    assert "codes scanned for one query" in result.output
