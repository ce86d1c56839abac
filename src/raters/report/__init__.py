"""The report: one HTML file that opens anywhere, with its figures and tables beside it.

Example:
    >>> from raters import report
    >>> page = report.render(report.Report("Lesions", {"cases": 2}))
    >>> page.splitlines()[0]
    '<!doctype html>'
"""

from raters.report.blocks import Block as Block
from raters.report.blocks import FigureBlock as FigureBlock
from raters.report.blocks import Report as Report
from raters.report.blocks import Section as Section
from raters.report.blocks import TableBlock as TableBlock
from raters.report.blocks import TextBlock as TextBlock
from raters.report.blocks import ViewerBlock as ViewerBlock
from raters.report.case_view import viewer_case as viewer_case
from raters.report.dispatch import report as report
from raters.report.figures import colours_picture as colours_picture
from raters.report.figures import map_picture as map_picture
from raters.report.figures import outline_path as outline_path
from raters.report.figures import picture as picture
from raters.report.page import render as render
from raters.report.page import write as write
from raters.report.sheet import write_sheets as write_sheets
from raters.report.viewer import Layer as Layer
from raters.report.viewer import MapLayer as MapLayer
from raters.report.viewer import ViewerCase as ViewerCase
from raters.report.viewer import extra_layers as extra_layers
from raters.report.viewer import rater_layers as rater_layers
