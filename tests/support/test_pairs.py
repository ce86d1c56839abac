"""Grids that are thinned out still hold every pair of values."""

from itertools import combinations, product

from tests.support.pairs import all_pairs


def test_every_pair_of_values_occurs_in_a_fraction_of_the_grid() -> None:
    values = [range(10), range(6), range(4), "ab"]
    chosen = all_pairs(*values)
    for first, second in combinations(range(len(values)), 2):
        found = {(case[first], case[second]) for case in chosen}
        assert found == set(product(values[first], values[second]))
    assert 60 <= len(chosen) < 80  # of 480
    assert all_pairs("ab", "cd") == list(product("ab", "cd"))
