import pytest

from supquant.progress import Progress
from supquant_lab.time_limit import TimeIsUpError, TimeLimit


def test_a_time_limit_does_not_end_a_fit_before_there_is_a_model(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 105.0)
    limit = TimeLimit(1.0, began=100.0)
    limit(Progress("classifier", 0, 1, elapsed=5.0, remaining=1.0, values={}))
    with pytest.raises(TimeIsUpError):
        limit(Progress("codes", 1, 9, elapsed=5.0, remaining=1.0, values={}))
