import json

import pytest

pytestmark = pytest.mark.usefixtures("no_sample")


@pytest.fixture
def no_sample(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPQUANT_DATA", str(tmp_path))


def test_the_speed_of_gist_is_measured_on_all_pictures(run, tmp_path):
    result = run("bench", "gist", "--images", 40, "--json", tmp_path / "gist.json")
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "gist.json").read_text())
    assert record["images"] == 40
    assert record["images_per_second"] == pytest.approx(40 / record["seconds"])
    assert "cifar10_sample.npz is not in the data folder" in result.output


def test_agreement_is_reported_with_the_speed(run, tmp_path):
    import numpy as np

    from supquant_lab.gist import gist_descriptors

    images = np.random.default_rng(0).integers(256, size=(20, 32, 32, 3), dtype=np.uint8)
    reference = gist_descriptors(images)
    reference[:, 7] *= -1
    np.savez(tmp_path / "cifar10_sample.npz", images=images, gist=reference)
    result = run("bench", "gist", "--images", 25, "--json", tmp_path / "gist.json")
    assert result.exit_code == 0, result.output
    agreement = json.loads((tmp_path / "gist.json").read_text())["agreement"]
    assert agreement["lowest_correlation"] == pytest.approx(-1)
    assert agreement["largest_difference"] == pytest.approx(2 * abs(reference[:, 7]).max())
