"""`gsc-scaling`: time of an iteration of GSC against the number of causes (GSC Figure 10)."""

from multicause.experiments.base import Options, Result, Row
from multicause.experiments.bench import Setting, seconds_per_iteration
from multicause.experiments.et_scaling import figure_of_times, loglog_slope
from multicause.models import SpikeSlabLinear

TRUNCATIONS = ((5, 5), (10, 5), (10, 8))


def gsc_scaling(options: Options) -> Result:
    sizes = [2**power for power in range(4, 7 if options.quick else 11)]
    rows, times = [], {}
    for n_candidates, max_active in TRUNCATIONS:
        title = f"H'={n_candidates}, gamma={max_active}"
        setting = Setting(SpikeSlabLinear, 1_000 if options.quick else 20_000, 64, 16, n_candidates, max_active)
        times[title] = [seconds_per_iteration(setting._replace(n_components=h)) for h in sizes]
        slope, interval = loglog_slope(sizes, times[title])
        rows.append(Row(title, "slope on log-log", "near 1", slope, interval, slope <= 1.0))
        options.report(f"{title}: slope {slope:.2f}")
    details = {"H": sizes, "seconds per iteration": times}
    return Result("gsc-scaling", rows, figure_of_times(sizes, times), details=details)
