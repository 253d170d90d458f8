"""The report: claims judged from the tables of the figures, and the page that shows everything."""

from gradwalk.report.claims import CLAIMS, findings
from gradwalk.report.explorer import write_explorer
from gradwalk.report.finding import VERDICTS, Claim, Finding, Verdict
from gradwalk.report.page import write_page

__all__ = ["CLAIMS", "VERDICTS", "Claim", "Finding", "Verdict", "findings", "write_explorer", "write_page"]
