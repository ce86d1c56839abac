"""Raters who err on purpose, and the confusion they really have."""

from raters.simulate.backend import rater_confusion
from raters.simulate.classes import (
    CIFAR_CLASSES,
    KINDS,
    cifar_raters,
    draw_labels,
    group,
    hammer_spammer,
    pairwise_flipper,
)
from raters.simulate.drawn import disc_study, streak_study
from raters.simulate.layers import draw_classes
from raters.simulate.masks import DRAWERS, Drawer
from raters.simulate.phantoms import PHANTOMS, phantom_study
from raters.simulate.specs import COARSE, Spec, parse_assign, parse_raters
from raters.simulate.study import simulate, true_confusion, true_transition, write_true_confusion

__all__ = [
    "CIFAR_CLASSES",
    "COARSE",
    "DRAWERS",
    "KINDS",
    "PHANTOMS",
    "Drawer",
    "Spec",
    "cifar_raters",
    "disc_study",
    "draw_classes",
    "draw_labels",
    "group",
    "hammer_spammer",
    "pairwise_flipper",
    "parse_assign",
    "parse_raters",
    "phantom_study",
    "rater_confusion",
    "simulate",
    "streak_study",
    "true_confusion",
    "true_transition",
    "write_true_confusion",
]
