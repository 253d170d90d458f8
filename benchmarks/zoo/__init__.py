"""Small models written by others, each with a toy task: what `benchmarks/models.py` tries gradwalk on."""

from zoo import blind, images, language, series, tables
from zoo.case import CASES, Batch, Case

__all__ = ["CASES", "Batch", "Case", "blind", "images", "language", "series", "tables"]
