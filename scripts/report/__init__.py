"""The report of a run: one page that needs no network."""

from scripts.report.figures import Timeline
from scripts.report.page import Run, write_report

__all__ = ["Run", "Timeline", "write_report"]
