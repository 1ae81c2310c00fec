"""Reports: one self-contained HTML page with text, tables and figures."""

from multicause.report.page import Section, write_report

__all__ = ["Section", "write_report"]
