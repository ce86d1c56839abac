"""The report: one HTML file that opens anywhere, with its figures and tables beside it.

Example:
    >>> from raters.views import report
    >>> page = report.render(report.Report("Lesions", {"cases": 2}))
    >>> page.splitlines()[0]
    '<!doctype html>'
"""

from raters.views.report.blocks import Block as Block
from raters.views.report.blocks import FigureBlock as FigureBlock
from raters.views.report.blocks import Report as Report
from raters.views.report.blocks import Section as Section
from raters.views.report.blocks import TableBlock as TableBlock
from raters.views.report.blocks import TextBlock as TextBlock
from raters.views.report.blocks import ViewerBlock as ViewerBlock
from raters.views.report.case_view import viewer_case as viewer_case
from raters.views.report.figures import colours_picture as colours_picture
from raters.views.report.figures import map_picture as map_picture
from raters.views.report.figures import outline_path as outline_path
from raters.views.report.figures import picture as picture
from raters.views.report.page import render as render
from raters.views.report.page import write as write
from raters.views.report.sheet import write_sheets as write_sheets
from raters.views.report.viewer import Layer as Layer
from raters.views.report.viewer import MapLayer as MapLayer
from raters.views.report.viewer import ViewerCase as ViewerCase
from raters.views.report.viewer import extra_layers as extra_layers
from raters.views.report.viewer import rater_layers as rater_layers
