"""Bad and odd input, to every public method of every estimator: a clear error, or finite output."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odd_inputs import CONTAINERS, ESTIMATORS, VALUES, WEIGHTS, Case, drive


def mostly(table):
    """The first of a table, which is nothing special, or any other."""
    return st.one_of(st.just(next(iter(table))), st.sampled_from(list(table)))


CASES = st.builds(
    Case,
    st.sampled_from(list(ESTIMATORS)),
    mostly(VALUES),
    mostly(CONTAINERS),
    mostly(WEIGHTS),
    st.integers(0, 2**32 - 1),
)
UNHURRIED = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=100, derandomize=True, **UNHURRIED)
@given(CASES)
def test_odd_input_gets_a_clear_error_or_gives_finite_output(case):
    drive(case)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_five_thousand_odd_inputs_get_clear_errors_or_give_finite_output():
    told = Counter()

    @settings(max_examples=5000, derandomize=True, **UNHURRIED)
    @given(CASES)
    def every(case):
        told["cases"] += 1
        told.update(drive(case))

    every()
    print(dict(told))
    assert told["cases"] >= 5000
    assert min(told["refused"], told["answered"]) > 5000
