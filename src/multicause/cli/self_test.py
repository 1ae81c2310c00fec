"""One tiny case through the compiled kernels and through the definition."""

from __future__ import annotations

import time

TOLERANCE = 1e-9


def compare_with_brute_force(n_components: int = 5, n_features: int = 7, n_points: int = 20) -> tuple[float, float]:
    """Seconds until the kernels answered, and their largest error in <s> and F_n, relative to values of order one."""
    import numpy as np

    from multicause import LinCA
    from multicause.models import BinaryLinear, DictionaryParams
    from multicause.testing import brute_force

    rng = np.random.default_rng(1000)
    components = rng.normal(size=(n_components, n_features))
    params = DictionaryParams(components, rng.uniform(0.1, 0.5, size=n_components), 0.5)
    model = BinaryLinear(n_components, n_features)
    Y, _ = model.sample(params, n_points, rng)
    estimator = LinCA.from_parameters(**params._asdict(), n_candidates=None)
    begin = time.perf_counter()
    LinCA(n_components, max_iter=2, tol=1e3, random_state=0).fit(Y)  # the E-step's kernels
    means, free_energies = estimator.transform(Y), estimator.score_samples(Y)
    seconds = time.perf_counter() - begin
    truth = brute_force(model, params, Y)
    errors = (np.abs(means - truth.mean), np.abs(free_energies - truth.free_energy) / np.abs(truth.free_energy))
    return seconds, float(max(error.max() for error in errors))
