"""Short forms of arguments mean what people take them to mean, and messages name the model that helps."""

import numpy as np
import pytest

from multicause import ETNMF, GSC, MCA, LinCA, NonlinearGSC, UPoE
from multicause.datasets import make_bars
from multicause.learning import Annealing

X = np.abs(make_bars(80, 3, random_state=1000).X)


@pytest.mark.parametrize("estimator", [LinCA, ETNMF, GSC, MCA, NonlinearGSC])
def test_a_number_for_annealing_is_the_first_temperature(estimator):
    short, long = (
        estimator(4, annealing=annealing, max_iter=6, random_state=0).fit(X) for annealing in (13, Annealing(13.0))
    )
    np.testing.assert_array_equal(short.components_, long.components_)
    assert short.annealing == 13


def test_a_temperature_below_one_is_refused():
    with pytest.raises(ValueError, match=r"The 'annealing' parameter of LinCA must be .* range \[1.0?, inf\)"):
        LinCA(4, annealing=0.5).fit(X)


@pytest.mark.parametrize("fixed", ["noise_variance", ("noise_variance",), ["noise_variance"]])
def test_one_name_may_be_held_without_a_tuple(fixed):
    fitted = LinCA(4, fixed=fixed, init={"noise_variance": 4.0}, max_iter=3, tol=1e3, random_state=0).fit(X)
    assert fitted.noise_variance_ == 4.0
    assert np.isfinite(fitted.bic(X))


def test_a_name_that_is_none_is_told_whole():
    with pytest.raises(ValueError, match=r"must hold names among .* Got 'noise' instead"):
        LinCA(4, fixed="noise").fit(X)
    with pytest.raises(
        ValueError, match=r"LinCA\(fixed='noise_variance'\) holds 'noise_variance' at its initial value"
    ):
        LinCA(4, fixed="noise_variance").fit(X)


@pytest.mark.parametrize("estimator", [MCA, ETNMF, UPoE])
def test_missing_values_are_refused_with_the_models_that_take_them(estimator):
    gaps = X.copy()
    gaps[3, 2] = np.nan
    with pytest.raises(
        ValueError, match=f"contains NaN. {estimator.__name__} does not support missing .* use GSC or LinCA"
    ) as raised:
        estimator().fit(gaps)
    assert "HistGradientBoosting" not in str(raised.value)
    with pytest.raises(ValueError, match="use GSC or LinCA"):
        estimator().fit([gaps[:40], gaps[40:]])


def test_encode_and_decode_are_transform_and_inverse_transform():
    linca = LinCA(4, max_iter=3, tol=1e3, random_state=0).fit(X)
    np.testing.assert_array_equal(linca.encode(X), linca.transform(X))
    np.testing.assert_array_equal(linca.decode(linca.encode(X)), linca.inverse_transform(linca.transform(X)))
