"""The report: one HTML file that opens anywhere, with its figures and tables beside it.

Example:
    >>> from raters import report
    >>> page = report.render(report.Report("Lesions", {"cases": 2}))
    >>> page.splitlines()[0]
    '<!doctype html>'
"""

from raters.report.blocks import (
    Block,
    FigureBlock,
    Report,
    Section,
    TableBlock,
    TextBlock,
    ViewerBlock,
)
from raters.report.case_view import viewer_case
from raters.report.dispatch import report
from raters.report.figures import colours_picture, map_picture, outline_path, picture
from raters.report.page import render, write
from raters.report.sheet import write_sheets
from raters.report.viewer import Layer, MapLayer, ViewerCase, extra_layers, rater_layers

__all__ = [
    "Block",
    "FigureBlock",
    "Layer",
    "MapLayer",
    "Report",
    "Section",
    "TableBlock",
    "TextBlock",
    "ViewerBlock",
    "ViewerCase",
    "colours_picture",
    "extra_layers",
    "map_picture",
    "outline_path",
    "picture",
    "rater_layers",
    "render",
    "report",
    "viewer_case",
    "write",
    "write_sheets",
]
