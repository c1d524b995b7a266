"""What a fit by the default method tells while it works."""

import numpy as np
import pytest

from supquant import SupervisedQuantizer
from supquant.progress import TimeIsUpError
from supquant.quantizers.fit_costs import expected_seconds

STAGES = ["classifier", "new classes", "features", "codes, 2 codebooks", "calibration"]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=300)
    return rng.normal(size=(300, 8)) + 3 * np.eye(8)[y], y


def quantizer(**parameters):
    return SupervisedQuantizer(2, n_codewords=16, random_state=0, n_jobs=1, **parameters)


def test_every_stage_is_told_with_its_share_and_the_time_left(rows):
    events = []
    quantizer(callback=events.append).fit(*rows)
    assert list(dict.fromkeys(event.stage for event in events)) == STAGES
    assert (events[0].step, events[0].share) == (0, 0.0)
    shares = [event.share for event in events]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert all(event.remaining >= 0 for event in events)
    assert events[-1].remaining == 0
    assert len([event for event in events if event.stage == "classifier"]) > 4  # passes are told too


def test_a_longer_code_has_no_stage_for_features_that_it_takes(rows):
    shorter = SupervisedQuantizer(1, n_codewords=16, random_state=0, n_jobs=1).fit(*rows)
    events = []
    quantizer(init=shorter, callback=events.append).fit(*rows)
    stages = list(dict.fromkeys(event.stage for event in events))
    assert "classifier" not in stages
    assert events[0].share == 0.0


@pytest.mark.parametrize("stage", STAGES)
def test_a_callback_may_end_a_fit_in_any_stage_and_leaves_a_model_if_there_is_one(rows, stage):
    def end(event):
        if event.stage == stage:
            raise TimeIsUpError

    model = quantizer(callback=end)
    with pytest.raises(TimeIsUpError):
        model.fit(*rows)
    assert hasattr(model, "codec_") == (stage == "calibration")


def test_a_callback_that_ends_a_fit_after_a_round_leaves_its_model(rows):
    def end(event):
        if event.stage.startswith("codes") and event.step == 1:
            raise TimeIsUpError

    model = quantizer(callback=end)
    with pytest.raises(TimeIsUpError):
        model.fit(*rows)
    assert model.encode(rows[0]).shape == (300, 2)


def test_codes_do_not_depend_on_being_watched(rows):
    watched = quantizer(callback=lambda event: None).fit(*rows)
    np.testing.assert_array_equal(watched.training_codes_, quantizer().fit(*rows).training_codes_)


@pytest.mark.parametrize(
    ("grown", "stage"),
    [
        ({"n_rows": 30_000}, "classifier"),
        ({"n_labels": 200}, "classifier"),
        ({"n_codebooks": 16}, "codes, 16 codebooks"),
        ({"n_rows": 30_000}, "features"),
    ],
)
def test_more_work_is_expected_to_take_longer(monkeypatch, grown, stage):
    monkeypatch.setattr("supquant.quantizers.fit_costs.operations_a_second", lambda: 1e9)
    sizes = {"n_rows": 5_000, "n_inputs": 64, "n_labels": 10, "n_codebooks": 8, "n_codewords": 256}
    told = {"max_iter": 30, "from_shorter": False, "n_jobs": 1}
    small, large = (expected_seconds(**each, **told) for each in (sizes, sizes | grown))
    assert large[stage] > 1.5 * small[stage.replace("16", "8")]
