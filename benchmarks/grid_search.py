"""How often scikit-learn's GridSearchCV over `n_components`, with defaults, picks the number that made the data.

    python benchmarks/grid_search.py --seeds 0 20 --processes 16

Bars of five by five pixels, ten of them, two active on average; the grid holds 5, 8, 10, 12 and 15 components.
"""

import argparse
import json
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from sklearn.model_selection import GridSearchCV  # noqa: E402

from multicause import LinCA  # noqa: E402
from multicause.datasets import make_bars  # noqa: E402

TRUTH, GRID = 10, (5, 8, 10, 12, 15)


def picked(n_samples: int, seed: int) -> dict:
    X = make_bars(n_samples, TRUTH // 2, pixel_value=1.0, noise=0.3, random_state=seed).X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = GridSearchCV(LinCA(random_state=seed, n_jobs=1), {"n_components": list(GRID)}).fit(X)
    scores = dict(zip(map(str, GRID), search.cv_results_["mean_test_score"].round(4).tolist(), strict=True))
    return {"seed": seed, "n_samples": n_samples, "picked": search.best_params_["n_components"], "scores": scores}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 20))
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    with ProcessPoolExecutor(asked.processes) as pool:
        found = list(pool.map(partial(picked, asked.samples), range(*asked.seeds)))
    for one in found:
        print(json.dumps(one))
    print(f"right in {sum(one['picked'] == TRUTH for one in found)} of {len(found)}")


if __name__ == "__main__":
    main()
