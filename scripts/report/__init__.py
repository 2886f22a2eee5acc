"""The report of a run: one page that needs no network."""

from scripts.report.page import Run, write_report

__all__ = ["Run", "write_report"]
