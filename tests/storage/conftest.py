import pytest
from stored_arrays import ARRAYS, SETTINGS

from supquant.storage import pack_arrays


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    pack_arrays("model", ARRAYS, SETTINGS).write(path)
    return path
