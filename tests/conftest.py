"""Settings shared by all tests."""

import matplotlib
from hypothesis import settings

matplotlib.use("Agg")
settings.register_profile("multicause", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("multicause")
