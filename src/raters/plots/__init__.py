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

from raters.plots.error_maps import error_colours, errors, side_by_side
from raters.plots.lines import curves, reliability
from raters.plots.matrices import confusion
from raters.plots.overlays import overlay
from raters.plots.pairs import agreement, difficulty
from raters.plots.pictures import border_lines
from raters.plots.sizes import bias, case_volumes, distance_counts, volumes
from raters.plots.skill import matrix_skills, skill_scatter, skills
from raters.plots.style import Theme, rater_colours, rater_lines, shown
from raters.scores.border import DistanceCounts, signed_distance_counts

__all__ = [
    "DistanceCounts",
    "Theme",
    "agreement",
    "bias",
    "border_lines",
    "case_volumes",
    "confusion",
    "curves",
    "difficulty",
    "distance_counts",
    "error_colours",
    "errors",
    "matrix_skills",
    "overlay",
    "rater_colours",
    "rater_lines",
    "reliability",
    "shown",
    "side_by_side",
    "signed_distance_counts",
    "skill_scatter",
    "skills",
    "volumes",
]
