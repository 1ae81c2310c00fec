"""The constants of the paper on spike-and-slab sparse coding."""

from multicause.experiments.constants.table import Constants, on_other_data
from multicause.experiments.experiment import STANDS_IN

# eq. 1-3, 8-10: both covariances in full, unless the text says otherwise
_GENERAL = {"noise": "full", "slab": "full", "slab_update": "moments"}
_HOMOSCEDASTIC = {**_GENERAL, "noise": "isotropic"}
_GSC_START = "paper"  # footnote 2
_GSC_HOUSE = {
    "patch_size": 8,
    "weights": "uniform",
    "max_patches": 100_000,  # all of them
    "tol": 0.0,
    "subtract_mean": False,
    "n_passes": 1,
    "start": _GSC_START,
    "slab": "full",
    "slab_update": "moments",
}
_TRUNCATED = {"n_candidates": 10, "max_active": 8, "selection": "model-based", "max_iter": 65}
_FIVE = {"n_candidates": 5, "max_active": 5}
_FEW_ACTIVE = {**_TRUNCATED, "n_candidates": 18, "max_active": 3}
_SOURCES = ("voices10", "eeg19", "voices20")  # in place of 10halo, EEG19 and Speech20
_BY_TEXT = {"start": _GSC_START, "model": _GENERAL, "length": 1.0, "power": 2.0}  # sigma is a standard deviation

CONSTANTS = {
    "gsc-consistency": Constants(
        "GSC §5.2, Figure 3; footnote 2",
        {"start": _GSC_START, "tol": 0.0},
        {
            f"{title}, N={1000 * 2**k:,}": {
                "n_samples": 1000 * 2**k,
                "prior": prior,
                "settings": {**truncation, **model},
            }
            for title, prior, truncation, model in (
                ("H'=gamma=5", "spike and slab", _FIVE, _GENERAL),
                ("exact", "spike and slab", {"posterior": "exact"}, _GENERAL),
                ("H'=gamma=5, one noise variance", "spike and slab", _FIVE, _HOMOSCEDASTIC),
                ("exact, one noise variance", "spike and slab", {"posterior": "exact"}, _HOMOSCEDASTIC),
                ("H'=gamma=5, Laplace data", "Laplace", _FIVE, _GENERAL),
            )
            for k in range(10)
        },
        trials=15,
        silent=("curve", "title", "judged", "largest", "length"),
    ),
    "gsc-directions": Constants(
        "GSC §5.3, Figure 4",
        {"max_iter": 50, "start": _GSC_START},
        {
            f"{prior}, D=H={size} (ours: {STANDS_IN}": {"prior": prior, "size": size}
            for prior in ("Cauchy", "Laplace")
            for size in (20, 40, 60, 80, 100)
        },
        trials=15,
        silent=("methods",),
    ),
    "gsc-separation": Constants(
        "GSC §5.4, Figures 5, 6, 12",
        {"max_iter": 100, **_BY_TEXT},
        {
            f"{name}, {kind}, sigma={sigma:g} (ours: other data, {STANDS_IN}": {
                "name": name,
                "noise": noise,
                "sigma": sigma,
            }
            for name in _SOURCES
            for kind, noise in (("noiseless", 0.0), ("noisy", 2.0))
            for sigma in (0.0, 4.0, 10.0, 20.0)
        },
        trials=15,
        silent=("reading", "words"),
    ),
    "gsc-table1": Constants(
        "GSC §5.4, Table 1",
        {"start": _GSC_START, "posterior": "exact", "model": _HOMOSCEDASTIC},
        {f"Speech4, N={n}, exact": {"n_samples": n} for n in (200, 500)},
        trials=50,
    ),
    "gsc-posterior": Constants(
        "GSC §3, Figure 2; §5.4",
        {"max_iter": 50, "start": _GSC_START, "model": _HOMOSCEDASTIC},
        on_other_data({"voices10": {}}),
        silent=("name", "n_samples"),
    ),
    "gsc-tradeoff": Constants(
        "GSC §5.5, Appendix B, Figures 7A, 9",
        {"max_iter": 100, "limits": tuple(range(1, 11)), **_BY_TEXT},
        on_other_data({name: {"name": name} for name in _SOURCES}),
        trials=15,
        silent=("reading", "words"),
    ),
    "gsc-selection": Constants(
        "GSC §5.1",
        {"max_iter": 50, "selection": "model-based", "start": _GSC_START, "slab": "full", "slab_update": "moments"},
        {
            f"H={h}, H'={few}, gamma={gamma}": {"n_components": h, "n_candidates": few, "max_active": gamma}
            for h in (10, 12)
            for few, gamma in ((4, 4), (5, 4), (5, 3))
        },
    ),
    "gsc-denoise": Constants(
        "GSC §5.6, Table 2; §5.5 for the iterations and Figure 7B",
        _GSC_HOUSE,
        {
            **{f"noise {noise}, H=64": {**_TRUNCATED, "noise": noise, "n_components": 64} for noise in (15, 25, 50)},
            **{f"noise {noise}, H=256": {**_FEW_ACTIVE, "noise": noise, "n_components": 256} for noise in (15, 25)},
            "noise 50, H=256": {**_TRUNCATED, "noise": 50, "n_components": 256},
            "noise 50, H=400": {**_TRUNCATED, "noise": 50, "n_components": 400, "max_iter": 120},
            **{
                f"noise 50, H=400, gamma=5, {n} iterations": {
                    **_TRUNCATED,
                    "max_active": 5,
                    "n_components": 400,
                    "max_iter": n,
                }
                for n in (30, 120)
            },
        },
        trials=1,
        silent=("noise",),
    ),
}
