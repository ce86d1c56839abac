"""Figures of raters: what they drew, how far they agree, and how far each can be trusted.

Each function gives a `matplotlib.figure.Figure`, made without pyplot: nothing has to be closed, and
no display is needed. `figure.savefig("name.png")` or `.svg` writes it. The background is
transparent; `theme="dark"` is for dark pages. A rater has the same colour in all figures.

Example:
    >>> from raters import plots
    >>> figure = plots.confusion([[0.9, 0.1], [0.2, 0.8]], ["healthy", "lesion"])
    >>> len(figure.axes)  # the matrix and its colour bar
    2
"""

from raters.confusion import matrix_skills as matrix_skills
from raters.plots.error_maps import error_colours as error_colours
from raters.plots.error_maps import errors as errors
from raters.plots.error_maps import side_by_side as side_by_side
from raters.plots.lines import curves as curves
from raters.plots.lines import reliability as reliability
from raters.plots.matrices import confusion as confusion
from raters.plots.overlays import overlay as overlay
from raters.plots.pairs import agreement as agreement
from raters.plots.pairs import difficulty as difficulty
from raters.plots.pictures import border_lines as border_lines
from raters.plots.sizes import bias as bias
from raters.plots.sizes import case_volumes as case_volumes
from raters.plots.sizes import distance_counts as distance_counts
from raters.plots.sizes import volumes as volumes
from raters.plots.skill import skill_scatter as skill_scatter
from raters.plots.skill import skills as skills
from raters.plots.style import Theme as Theme
from raters.plots.style import rater_colours as rater_colours
from raters.plots.style import rater_lines as rater_lines
from raters.plots.style import shown as shown
from raters.scores.border import DistanceCounts as DistanceCounts
from raters.scores.border import signed_distance_counts as signed_distance_counts
