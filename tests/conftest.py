"""Settings shared by all tests."""

import matplotlib
import pytest
from hypothesis import settings

from multicause._compat import HAS_CALLBACKS
from multicause.persistence import save_model

matplotlib.use("Agg")
settings.register_profile("multicause", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("multicause")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def save_unchecked(monkeypatch):
    """Writes a file of what `save_model` refuses, as a hostile hand would."""

    def save(estimator, path, **more):
        with monkeypatch.context() as patch:
            patch.setattr(type(estimator), "_check_fitted", lambda self: None)
            save_model(estimator, path, **more)

    return save


@pytest.fixture
def callbacks():
    """For tests that set callbacks on an estimator."""
    if not HAS_CALLBACKS:
        pytest.skip("scikit-learn has callbacks since 1.9")
