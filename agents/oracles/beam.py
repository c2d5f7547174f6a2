"""Which of the moves open to the states of a beam search are made, when there are too many.

A state costs the more the more replicas it has, and what they are good for shows minutes later: a
beam that kept the highest returns alone would drop every state that gets ready for a ramp, for
states that have put it off. So what is kept is spread: for every number of replicas and every time
until a replica ordered now is ready, the best move after which so many are ready by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

ALIKE: Final = 4
"""Moves to the same settings with the same replicas ready at all times that are kept before others:
they differ in luck and in what has queued up."""
_MIX: Final = 1_000_003
"""Odd multiplier of the hash that tells kinds of moves apart; a collision only costs variety."""


@dataclass(frozen=True, eq=False)
class Moves:
    """What the states of one window may do next, arrays `(n,)`: a state, and settings for it."""

    parents: Ints
    """Row of the state."""
    replicas: Ints
    """Replicas to ask for."""
    threshold_steps: Ints
    """Threshold to set."""
    ready: Ints
    """`(n, leads)`: replicas that will be ready so many ticks later, if nothing else is ordered."""
    returns: Floats
    """Return with what the settings are sure to cost."""
    losses: Floats
    """What a shortage that can no longer be mended will probably cost."""


def ready_after(ready: Ints, before: Ints, wanted: Ints, waits: NDArray[np.bool_]) -> Ints:
    """Replicas ready at each lead once others are asked for, `(n, leads)`.

    Fewer: those that would be ready last go first. More: they are ready where `waits` ends.

    Args:
        ready: `(n, leads)`: as it is.
        before: `(n,)`: replicas asked for.
        wanted: `(n,)`: replicas to ask for.
        waits: `(leads,)`: at which leads a replica ordered now is not ready yet.
    """
    more = np.maximum(wanted - before, 0)[:, None] * ~waits
    fewer: Ints = np.minimum(ready, wanted[:, None])
    return np.where((wanted < before)[:, None], fewer, ready + more)


def chosen(moves: Moves, room: int) -> Ints:
    """The places of at most `room` moves: the most promising, and of every kind some.

    Two rankings count: by the return so far, and by what is left of it after the probable losses.
    The first tries what looks too lean, the second knows what is lost already.
    """
    rankings = [
        np.argsort(-score, kind="stable") for score in (moves.returns, moves.returns - moves.losses)
    ]
    places = np.min([_places(ranking) for ranking in rankings], axis=0)
    leads = np.zeros(len(places), bool)
    for ranking in rankings:
        for ready in moves.ready.T:
            leads[_leaders(ready, ranking)] = True
    crowded = _rank_within(_kinds(moves), places) >= ALIKE
    return np.lexsort((places, crowded, ~leads))[:room]


def rows_for(parents: Ints, rows: Ints) -> Ints:
    """A row for each child, `(k,)`: the first of each parent stays in its parent's row.

    Args:
        parents: `(k,)`: their rows, among these or not.
        rows: All rows for children, at least k.
    """
    children = np.empty(len(parents), np.int64)
    parent, first = np.unique(parents, return_index=True)
    inside = np.isin(parent, rows)
    children[first[inside]] = parent[inside]
    others = np.ones(len(parents), bool)
    others[first[inside]] = False
    children[others] = np.setdiff1d(rows, parent)[: int(others.sum())]
    return children


def _places(ranking: Ints) -> Ints:
    """The place of each in a ranking."""
    places = np.empty(len(ranking), np.int64)
    places[ranking] = np.arange(len(ranking))
    return places


def _leaders(classes: Ints, ranking: Ints) -> Ints:
    """The first of a ranking in each class of small numbers."""
    leaders = np.full(int(classes.max()) + 1, -1)
    leaders[classes[ranking[::-1]]] = ranking[::-1]  # what is written last stays
    return leaders[leaders >= 0]


def _kinds(moves: Moves) -> Ints:
    """A number for all that the clock shows of a move."""
    kinds = moves.replicas * _MIX + moves.threshold_steps
    for ready in moves.ready.T:
        kinds = kinds * _MIX + ready  # wraps around
    return kinds


def _rank_within(kinds: Ints, places: Ints) -> Ints:
    """How many of the same kind come before each."""
    order = np.lexsort((places, kinds))
    sorted_kinds = kinds[order]
    starts = np.flatnonzero(np.append(True, sorted_kinds[1:] != sorted_kinds[:-1]))
    sizes = np.diff(np.append(starts, len(kinds)))
    ranks = np.empty(len(kinds), np.int64)
    ranks[order] = np.arange(len(kinds)) - np.repeat(starts, sizes)
    return ranks
