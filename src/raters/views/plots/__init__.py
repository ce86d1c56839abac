"""Figures of raters: what they drew, how far they agree, and how far each can be trusted.

Each function gives a `matplotlib.figure.Figure`, made without pyplot: nothing has to be closed, and
no display is needed. `figure.savefig("name.png")` or `.svg` writes it. The background is
transparent; `theme="dark"` is for dark pages. A rater has the same colour in all figures.

Example:
    >>> from raters.views import plots
    >>> figure = plots.confusion([[0.9, 0.1], [0.2, 0.8]], ["healthy", "lesion"])
    >>> len(figure.axes)  # the matrix and its colour bar
    2
"""

from raters.metrics.border import DistanceCounts as DistanceCounts
from raters.metrics.border import signed_distance_counts as signed_distance_counts
from raters.metrics.confusion import matrix_skills as matrix_skills
from raters.views.plots.error_maps import error_colours as error_colours
from raters.views.plots.error_maps import errors as errors
from raters.views.plots.error_maps import side_by_side as side_by_side
from raters.views.plots.lines import curves as curves
from raters.views.plots.lines import reliability as reliability
from raters.views.plots.matrices import confusion as confusion
from raters.views.plots.overlays import overlay as overlay
from raters.views.plots.pairs import agreement as agreement
from raters.views.plots.pairs import difficulty as difficulty
from raters.views.plots.pictures import border_lines as border_lines
from raters.views.plots.sizes import bias as bias
from raters.views.plots.sizes import case_volumes as case_volumes
from raters.views.plots.sizes import distance_counts as distance_counts
from raters.views.plots.sizes import volumes as volumes
from raters.views.plots.skill import skill_scatter as skill_scatter
from raters.views.plots.skill import skills as skills
from raters.views.plots.style import Theme as Theme
from raters.views.plots.style import rater_colours as rater_colours
from raters.views.plots.style import rater_lines as rater_lines
from raters.views.plots.style import shown as shown
