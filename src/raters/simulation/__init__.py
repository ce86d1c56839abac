"""Raters who err on purpose, and the confusion they really have."""

from raters.simulation.backend import rater_confusion as rater_confusion
from raters.simulation.classes import CIFAR_CLASSES as CIFAR_CLASSES
from raters.simulation.classes import KINDS as KINDS
from raters.simulation.classes import cifar_raters as cifar_raters
from raters.simulation.classes import draw_labels as draw_labels
from raters.simulation.classes import group as group
from raters.simulation.classes import hammer_spammer as hammer_spammer
from raters.simulation.classes import pairwise_flipper as pairwise_flipper
from raters.simulation.drawn import disc_study as disc_study
from raters.simulation.drawn import streak_study as streak_study
from raters.simulation.layers import draw_classes as draw_classes
from raters.simulation.masks import DRAWERS as DRAWERS
from raters.simulation.masks import Drawer as Drawer
from raters.simulation.phantoms import PHANTOMS as PHANTOMS
from raters.simulation.phantoms import phantom_study as phantom_study
from raters.simulation.specs import COARSE as COARSE
from raters.simulation.specs import Spec as Spec
from raters.simulation.specs import parse_assign as parse_assign
from raters.simulation.specs import parse_raters as parse_raters
from raters.simulation.study import simulate as simulate
from raters.simulation.study import true_confusion as true_confusion
from raters.simulation.study import true_transition as true_transition
from raters.simulation.study import write_true_confusion as write_true_confusion
