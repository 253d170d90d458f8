"""The report: the paper's claims judged from the tables of the figures, and the page that shows all of it."""

from gradwalk.report.page import write_page

__all__ = ["write_page"]
