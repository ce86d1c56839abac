"""The papers' tables and figures as runs that anyone can repeat.

A specification (`specs/NAME.yaml`) says what is trained on what; a cell is one row of its table in
one setting with one seed, and one JSON file. `raters bench` lists, runs and shows them.
"""
