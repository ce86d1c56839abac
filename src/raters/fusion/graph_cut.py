"""Labels of a graph's nodes that cost least: a minimum cut, and expansion moves for many classes.

Y. Boykov, O. Veksler and R. Zabih, Fast approximate energy minimization via graph cuts, IEEE TPAMI
23, 2001. Maximum flows are scipy's.
"""

from __future__ import annotations

import numpy as np

from raters.core.arrays import Array, Flags, Floats, Ints

_LARGEST = 1 << 30  # scipy's capacities are 32-bit integers, and so are their sums
_SWEEPS = 20


def energy(labels: Array, costs: Array, edges: Array, weights: Array) -> float:
    r"""Return what a labelling costs.

    .. math:: \sum_i u_i(t_i) + \sum_{ij} w_{ij} 1[t_i \neq t_j]

    Args:
        labels: The class of each node, `(nodes,)`.
        costs: `u`, `(nodes, L)`; infinite where a class is impossible.
        edges: Pairs of nodes, `(edges, 2)`.
        weights: `w`, `(edges,)`, not negative.

    Example:
        >>> costs, edges = np.array([[0.0, 5.0], [2.0, 0.0]]), np.array([[0, 1]])
        >>> energy(np.array([0, 1]), costs, edges, np.array([3.0]))
        3.0
    """
    differ = labels[edges[:, 0]] != labels[edges[:, 1]]
    return float(costs[np.arange(len(labels)), labels].sum() + weights[differ].sum())


def graph_cut(costs: Array, edges: Array, weights: Array) -> Ints:
    """Return the labelling of least `energy`; of three classes or more one that no expansion beats.

    An expansion gives one class to any set of nodes: the energy is then at most twice the least.

    Args:
        costs: `(nodes, L)`; infinite where a class is impossible, but one of each node is not.
        edges: Pairs of nodes, `(edges, 2)`, each pair once.
        weights: `(edges,)`, not negative.

    Example:
        >>> costs, edges = np.array([[0.0, 5.0], [2.0, 0.0]]), np.array([[0, 1]])
        >>> graph_cut(costs, edges, np.array([1.0])), graph_cut(costs, edges, np.array([3.0]))
        (array([0, 1]), array([0, 0]))
    """
    costs = np.asarray(costs, np.float64)
    weights = np.asarray(weights, np.float64)
    labels: Ints = costs.argmin(axis=1)
    if costs.shape[1] == 2:
        return _expanded(np.zeros_like(labels), 1, costs, edges, weights)
    least = energy(labels, costs, edges, weights)
    for _ in range(_SWEEPS):
        before = least
        for number in range(costs.shape[1]):
            moved = _expanded(labels, number, costs, edges, weights)
            found = energy(moved, costs, edges, weights)
            if found < least - 1e-9 * abs(least):
                labels = moved
                least = found
        if least == before:
            break
    return labels


def _expanded(labels: Ints, number: int, costs: Floats, edges: Array, weights: Floats) -> Ints:
    """Let a class take the nodes that make the energy least; the others keep theirs."""
    one = edges[:, 0]
    two = edges[:, 1]
    keeps = weights * (labels[one] != labels[two])  # neither node takes the class
    second = weights * (labels[one] != number)  # the second alone takes it
    first = weights * (labels[two] != number)
    # x is 1 where the class is taken; E(x, y) of a pair is keeps + (first - keeps) x - first y
    # + (first + second - keeps) (1 - x) y, where the last factor is never negative.
    nodes = np.arange(len(labels))
    stay = costs[nodes, labels].copy()
    take = costs[nodes, number].copy()
    np.add.at(take, one, first - keeps)
    np.add.at(take, two, -first)
    taken = _minimum_cut(stay, take, two, one, first + second - keeps)
    return np.asarray(np.where(taken, number, labels))


def _minimum_cut(stay: Floats, take: Floats, tail: Array, head: Array, weights: Floats) -> Flags:
    """Return which nodes take, so that costs and the weights of cut arcs are least together.

    An arc is cut where its tail takes and its head stays.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    number = len(stay)
    around = np.bincount(tail, weights, number) + np.bincount(head, weights, number)
    least = np.minimum(stay, take)
    # An impossible choice costs more than all that a node could save by it.
    stay, take = (np.where(np.isfinite(cost), cost - least, 1 + around) for cost in (stay, take))
    source = number
    sink = number + 1
    every = np.arange(number)
    rows = np.concatenate([np.full(number, source), every, tail])
    columns = np.concatenate([every, np.full(number, sink), head])
    values = np.concatenate([stay, take, weights])
    scale = _LARGEST / max(values.sum(), 1e-12)
    capacity = np.rint(values * scale).astype(np.int32)
    graph = coo_array((capacity, (rows, columns)), (number + 2, number + 2)).tocsr()
    left = graph - maximum_flow(graph, source, sink).flow
    left.data = np.maximum(left.data, 0)
    left.eliminate_zeros()
    reached = breadth_first_order(left, source, return_predecessors=False)
    taken = np.zeros(number + 2, bool)
    taken[reached] = True
    return taken[:number]
