"""The report: every table and figure of the paper, rendered from result files alone."""

from supquant_lab.paper.report import Report, render_report

__all__ = ["Report", "render_report"]


def __dir__() -> list[str]:
    return __all__
