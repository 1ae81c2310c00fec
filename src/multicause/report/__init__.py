"""Reports: one self-contained HTML page with text, tables, figures and tiles."""

from multicause.report.model_report import Origin, write_model_report
from multicause.report.page import Section, write_report
from multicause.report.tiles import Look, Tile, Tiles

__all__ = ["Look", "Origin", "Section", "Tile", "Tiles", "write_model_report", "write_report"]
