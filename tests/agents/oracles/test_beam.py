"""What a beam keeps: the best of every kind, never more than there is room for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gatepilot.agents.oracles.beam import ALIKE, Moves, chosen, ready_after, rows_for

Ints = NDArray[np.int64]


def moves_of(
    returns: list[float],
    ready: list[list[int]],
    losses: list[float] | None = None,
    thresholds: list[int] | None = None,
) -> Moves:
    """Moves of one state each; as many replicas are asked for as will be ready at last."""
    n = len(returns)
    return Moves(
        parents=np.arange(n),
        replicas=np.array([line[-1] for line in ready]),
        threshold_steps=np.array([10] * n if thresholds is None else thresholds),
        ready=np.array(ready),
        returns=np.array(returns),
        losses=np.array([0.0] * n if losses is None else losses),
    )


def after(ready: list[int], before: int, wanted: int, first_lead: int) -> list[int]:
    waits = np.arange(len(ready)) < first_lead
    row = ready_after(np.array([ready]), np.array([before]), np.array([wanted]), waits)[0]
    found: list[int] = row.tolist()
    return found


def test_what_is_ordered_is_ready_a_cold_start_later_and_what_is_given_back_goes_at_once() -> None:
    assert after([4, 4, 5, 5], before=5, wanted=5, first_lead=3) == [4, 4, 5, 5]
    assert after([4, 4, 5, 5], before=5, wanted=7, first_lead=3) == [4, 4, 5, 7]
    assert after([4, 4, 5, 5], before=5, wanted=4, first_lead=3) == [4, 4, 4, 4]
    assert after([4, 4, 5, 5], before=5, wanted=2, first_lead=3) == [2, 2, 2, 2]
    assert after([4, 4], before=4, wanted=6, first_lead=0) == [6, 6]
    # one place was taken by a replica that has failed: nothing is ready for it
    assert after([3, 3, 3, 3], before=4, wanted=5, first_lead=2) == [3, 3, 4, 4]


def test_whoever_gets_ready_for_a_ramp_stays_though_it_costs() -> None:
    lean = [[4, 4, 4]] * 20
    ready = [*lean, [4, 6, 6], [4, 4, 6], [4, 4, 9]]
    returns = [0.0] * 20 + [-3.0, -1.0, -9.0]
    kept = chosen(moves_of(returns, ready), room=6)
    assert {20, 21, 22} < set(kept.tolist())
    assert kept[:4].tolist() == [0, 21, 20, 22]


def test_of_two_that_will_be_as_well_prepared_the_cheaper_one_stays() -> None:
    ready = [[4, 6], [4, 6], [4, 4]]
    assert chosen(moves_of([-2.0, -1.0, 0.0], ready), room=2).tolist() == [2, 1]


def test_what_looks_best_and_what_is_best_after_the_probable_losses_both_stay() -> None:
    kept = chosen(moves_of([0.0, -0.1, -0.2], [[4, 4]] * 3, losses=[20.0, 0.0, 20.0]), room=2)
    assert set(kept.tolist()) == {0, 1}


def test_of_one_kind_only_a_few_come_before_others() -> None:
    ready = [[4]] * 10 + [[4]]
    thresholds = [10] * 10 + [3]
    kept = chosen(moves_of([0.0] * 10 + [-5.0], ready, thresholds=thresholds), room=ALIKE + 1)
    assert kept.tolist() == [*range(ALIKE), 10]
    everything = chosen(moves_of([0.0] * 10 + [-5.0], ready, thresholds=thresholds), room=50)
    assert sorted(everything.tolist()) == list(range(11))


@given(st.data(), st.integers(1, 40), st.integers(1, 4), st.integers(1, 60))
def test_every_number_of_replicas_at_every_lead_keeps_its_best_while_there_is_room(
    data: st.DataObject, n: int, leads: int, room: int
) -> None:
    lines = st.lists(st.integers(0, 5), min_size=leads, max_size=leads).map(sorted)
    ready = data.draw(st.lists(lines, min_size=n, max_size=n))
    values = st.floats(-100, 10, allow_nan=False)
    returns = data.draw(st.lists(values, min_size=n, max_size=n))
    losses = data.draw(st.lists(st.sampled_from([0.0, 5.0, 40.0]), min_size=n, max_size=n))
    kept = chosen(moves_of(returns, ready, losses), room).tolist()
    assert len(kept) == len(set(kept)) == min(room, n)
    table = np.array(ready)
    for score in (np.array(returns), np.array(returns) - np.array(losses)):
        best_of = {
            (lead, count): score[table[:, lead] == count].max()
            for lead in range(leads)
            for count in set(table[:, lead].tolist())
        }
        if room >= 2 * len(best_of):
            for (lead, count), best in best_of.items():
                assert score[[k for k in kept if table[k, lead] == count]].max() == best


@given(st.data(), st.integers(1, 30))
def test_every_child_has_a_row_and_each_parent_among_them_stays_in_its_own(
    data: st.DataObject, room: int
) -> None:
    rows = np.arange(100, 100 + room)
    guides = [97, 98, 99]
    states = st.sampled_from([*guides, *rows.tolist()])
    parents = np.array(data.draw(st.lists(states, min_size=1, max_size=room)))
    children = rows_for(parents, rows)
    assert len(set(children.tolist())) == len(parents)
    assert set(children.tolist()) <= set(rows.tolist())
    for parent in set(parents.tolist()) - set(guides):
        assert children[parents.tolist().index(parent)] == parent
    copied = children != parents
    assert not set(children[copied].tolist()) & set(parents.tolist())
