"""The demo: what it draws, the commands it runs, and the table that it ends with."""

from raters.demo.draw import draw_study
from raters.demo.story import DIGITS, LESIONS, QUICK, Story

__all__ = ["DIGITS", "LESIONS", "QUICK", "Story", "draw_study"]
