"""Raters who err on purpose, and the confusion they really have."""

from raters.simulate.backend import rater_confusion as rater_confusion
from raters.simulate.classes import CIFAR_CLASSES as CIFAR_CLASSES
from raters.simulate.classes import KINDS as KINDS
from raters.simulate.classes import cifar_raters as cifar_raters
from raters.simulate.classes import draw_labels as draw_labels
from raters.simulate.classes import group as group
from raters.simulate.classes import hammer_spammer as hammer_spammer
from raters.simulate.classes import pairwise_flipper as pairwise_flipper
from raters.simulate.drawn import disc_study as disc_study
from raters.simulate.drawn import streak_study as streak_study
from raters.simulate.layers import draw_classes as draw_classes
from raters.simulate.masks import DRAWERS as DRAWERS
from raters.simulate.masks import Drawer as Drawer
from raters.simulate.phantoms import PHANTOMS as PHANTOMS
from raters.simulate.phantoms import phantom_study as phantom_study
from raters.simulate.specs import COARSE as COARSE
from raters.simulate.specs import Spec as Spec
from raters.simulate.specs import parse_assign as parse_assign
from raters.simulate.specs import parse_raters as parse_raters
from raters.simulate.study import simulate as simulate
from raters.simulate.study import true_confusion as true_confusion
from raters.simulate.study import true_transition as true_transition
from raters.simulate.study import write_true_confusion as write_true_confusion
