"""The papers' constants, in one place: what the settings of a row without "(ours)" must be, and where a paper says so.

`CONSTANTS[experiment]` has the settings that all rows of the paper share, and for each row, by its title, what differs;
rows of which nothing but the data, or the rival beside them, are ours included. What a row leaves at a default is
listed with its value. Where a paper is silent, and where a setting says what the title does or how a trial is told, it
is named in `silent`; the tests compare the rest with the rows that are run, and miss a setting that is in neither.
"""

from multicause.experiments.constants import et, gsc, mca, others
from multicause.experiments.constants.table import Constants

CONSTANTS = {**et.CONSTANTS, **mca.CONSTANTS, **gsc.CONSTANTS, **others.CONSTANTS}

__all__ = ["CONSTANTS", "Constants"]
