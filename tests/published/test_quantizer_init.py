"""A longer code begins where a shorter one ended."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from supquant import AnchorKernel, ProductQuantizer, PublishedQuantizer
from supquant.errors import InputError
from supquant.published import quantizer as published

SMALL = {"n_codewords": 8, "features": None, "max_iter": 3, "random_state": 0}
TERMS = ["classification", "ridge", "quantization", "constraint"]


@pytest.fixture
def start_of(monkeypatch):
    """Return a function that fits and gives what the solver started from."""

    def start_of(quantizer, X, y):
        seen = {}
        name = f"{quantizer.solver}_steps"
        steps = getattr(published, name)

        def spy(start, **settings):
            seen[len(start.codebooks)] = start, start.rows.codes.copy()
            return steps(start, **settings)

        with monkeypatch.context() as patch:
            patch.setattr(published, name, spy)
            quantizer.fit(X, y)
        return seen[quantizer.n_codebooks]

    return start_of


def test_longer_code_starts_from_the_shorter_one(clusters, solver, start_of):
    X, y = clusters
    settings = SMALL | {"solver": solver, "quantization_weight": 1e-2}
    shorter = PublishedQuantizer(1, **settings | {"max_iter": 10, "tol": 1e-7}).fit(X, y)
    for n_codebooks in (2, 3):  # 8, 16 and 24 bits
        longer = PublishedQuantizer(n_codebooks, **settings, init=shorter)
        start, codes = start_of(longer, X, y)
        short = n_codebooks - 1
        np.testing.assert_array_equal(start.codebooks[:short], shorter.codec_.codebooks)
        assert not start.codebooks[short:].any()
        np.testing.assert_array_equal(start.projection, shorter.codec_.projection)
        np.testing.assert_array_equal(codes[:, :short], shorter.training_codes_)
        assert len(np.unique(codes[:, short])) == 8
        # the best W, P and eps for the shorter one's last codes: as good, up to the float32 of the stored codebooks
        before, after = shorter.objective_[-1]["total"], longer.objective_[0]["total"]
        assert after <= before * (1 + 1e-5)
        assert after > 0.9 * before
        assert longer.objective_[-1]["total"] <= after
        assert longer.encode(X).shape == (300, n_codebooks)
        shorter = longer


def test_psi_at_the_start_is_that_of_a_shorter_code_that_has_settled(clusters):
    X, y = clusters
    settings = SMALL | {"quantization_weight": 0.1}
    shorter = PublishedQuantizer(1, **settings | {"max_iter": 50, "tol": 1e-9}).fit(X, y)
    assert shorter.objective_[-1]["changed"] == 0
    longer = PublishedQuantizer(2, **settings, init=shorter).fit(X, y)
    for name in TERMS:
        assert longer.objective_[0][name] == pytest.approx(
            shorter.objective_[-1][name], rel=1e-4, abs=1e-5 * shorter.objective_[-1]["total"]
        )


def test_a_longer_code_takes_over_the_features_of_the_shorter_one(clusters):
    settings = SMALL | {"features": AnchorKernel(30)}
    shorter = PublishedQuantizer(1, **settings).fit(*clusters)
    longer = PublishedQuantizer(2, **settings | {"random_state": 9}, init=shorter).fit(*clusters)
    assert longer.codec_.feature_map is shorter.codec_.feature_map


def test_a_loaded_model_serves_as_init(clusters, tmp_path):
    shorter = PublishedQuantizer(1, **SMALL).fit(*clusters)
    shorter.save(tmp_path / "model")
    loaded = PublishedQuantizer.load(tmp_path / "model")  # without training codes: they are made again
    longer = PublishedQuantizer(2, **SMALL, init=loaded).fit(*clusters)
    assert longer.objective_[0]["total"] <= shorter.objective_[-1]["total"] * (1 + 1e-4)


@pytest.mark.parametrize("n_codebooks", [1, 2])
def test_init_is_left_alone(clusters, n_codebooks):
    shorter = PublishedQuantizer(1, **SMALL).fit(*clusters)
    codec, codes = shorter.codec_, shorter.training_codes_.copy()
    codebooks = codec.codebooks.copy()
    other = PublishedQuantizer(n_codebooks, **SMALL, init=shorter, quantization_weight=1.0).fit(*clusters)
    assert (other.training_codes_[:, :1] != codes).any()
    assert shorter.codec_ is codec
    np.testing.assert_array_equal(codec.codebooks, codebooks)
    np.testing.assert_array_equal(shorter.training_codes_, codes)


@pytest.mark.parametrize(
    ("settings", "columns", "message"),
    [
        ({"n_codebooks": 1}, 8, r"at most n_codebooks=1 codebooks of n_codewords=8 codewords, got 2 of 8"),
        ({"n_codewords": 16}, 8, r"codebooks of n_codewords=16 codewords, got 2 of 8"),
        ({}, 5, "init was fitted on 8 features, X has 5"),
    ],
)
def test_an_init_that_does_not_fit_is_refused(fitted, clusters, settings, columns, message):
    X, y = clusters
    quantizer = PublishedQuantizer(3, **SMALL, init=fitted).set_params(**settings)
    with pytest.raises(InputError, match=message):
        quantizer.fit(X[:, :columns], y)
    assert not hasattr(quantizer, "codec_")


def test_an_init_learned_from_other_labels_is_refused(fitted, clusters, indicator):
    X, y = clusters[0][:250], clusters[1][:250]
    for target in (y % 2, indicator[:250], np.array(["a", "b", "c"])[y]):
        with pytest.raises(InputError, match=r"init .*label"):
            PublishedQuantizer(3, **SMALL, init=fitted).fit(X, target)


def test_an_init_that_is_not_fitted_is_refused(clusters):
    with pytest.raises(NotFittedError):
        PublishedQuantizer(3, **SMALL, init=PublishedQuantizer(2, **SMALL)).fit(*clusters)


@pytest.mark.parametrize("init", ["random", 3])
def test_an_init_of_another_kind_is_refused(clusters, init):
    with pytest.raises(InputError, match="init must be"):
        PublishedQuantizer(3, **SMALL, init=init).fit(*clusters)


def test_a_product_quantizer_is_refused_as_init(clusters):
    init = ProductQuantizer(2, n_codewords=8, random_state=0).fit(clusters[0])
    with pytest.raises(InputError, match="init must be"):
        PublishedQuantizer(3, **SMALL, init=init).fit(*clusters)


def test_a_long_code_is_learned_from_a_short_one_of_its_own(clusters, solver, start_of):
    X, y = clusters
    quantizer = PublishedQuantizer(4, **SMALL, solver=solver)
    start, codes = start_of(quantizer, X, y)
    short = PublishedQuantizer(2, **SMALL, solver=solver).fit(X, y)
    np.testing.assert_array_equal(start.codebooks[:2].astype(np.float32), short.codec_.codebooks)
    assert not start.codebooks[2:].any()
    np.testing.assert_array_equal(codes[:, :2], short.training_codes_)
    assert quantizer.objective_[: len(short.objective_)] == short.objective_
