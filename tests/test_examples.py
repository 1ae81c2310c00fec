"""The examples of the gallery run, with less data than they show, and draw something."""

import ast
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
ELSEWHERE = "noisy_or"  # which test_gp_select.py runs whole
SMALL = {  # in place of the constants at the head of an example
    "bars_with_every_model": {"N_SAMPLES": 100, "SIZE": 3},
    "cluster_in_a_notebook": {"N_SAMPLES": 500},
    "counts_of_spikes": {"N_BINS": 200, "N_NEURONS": 20, "N_ASSEMBLIES": 3},
    "denoise_a_photograph": {"HEIGHT": 40, "WIDTH": 48},
    "eeg_like_sources": {"SECONDS": 10},
    "fill_missing_pixels": {"SIDE": 32},
    "larger_than_memory": {"N_SAMPLES": 4000, "SIZE": 3},
    "model_selection": {"N_SAMPLES": 120, "SIZE": 3},
    "natural_image_filters": {"N_PATCHES": 1000, "N_COMPONENTS": 8, "SIDE": 6},
    "objects_in_scenes": {"N_SAMPLES": 60, "N_OBJECTS": 2, "OBJECT_SIDE": 4, "SIDE": 9},
    "parts_of_digits": {"N_SAMPLES": 200, "N_COMPONENTS": 8},
    "voices_apart": {"N_SAMPLES": 2000},
}


def elements(node):
    return node.elts if isinstance(node, ast.Tuple) else [node]


def with_constants(source, values):
    """The example's code with other values for constants of its own; each of them must be there."""
    tree, missing = ast.parse(source), set(values)
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            for name, constant in zip(*map(elements, (node.targets[0], node.value)), strict=False):
                if isinstance(name, ast.Name) and name.id in values and isinstance(constant, ast.Constant):
                    constant.value = values[name.id]
                    missing.discard(name.id)
    assert not missing, f"no constants {missing}"
    return tree


@pytest.mark.filterwarnings("ignore")  # so few data are meant to be too few
@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.stem != ELSEWHERE], ids=lambda path: path.stem)
def test_an_example_runs_and_draws(path, folder):
    tree = with_constants(path.read_text(encoding="utf-8"), SMALL[path.stem])
    plt.close("all")
    exec(compile(tree, path, "exec"), {"__name__": "__main__"})
    figures = plt.get_fignums()
    plt.close("all")
    assert figures


def test_constants_that_are_not_there_are_missed():
    with pytest.raises(AssertionError, match="no constants"):
        with_constants("N = 3", {"M": 1})
    assert ast.unparse(with_constants("N, M = (3, 4)", {"M": 1})) == "N, M = (3, 1)"
