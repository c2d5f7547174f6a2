"""What Python calls: many gateways reset, ticked and shown, or one run to its end."""

from __future__ import annotations

from .attribution import attribute
from .kernel import inlined_kernel, kernel
from .observe import observe
from .simulator import bill, reset, run_until, tick
from .state import Plant, Sink
from .stored_row import Store, observe_stored


@inlined_kernel
def plant_of(params, state, workload, outcomes, e):
    """Gateway e's part of the state."""
    sink = Sink(
        outcomes,
        state.comebacks[e],
        state.served[e],
    )
    return Plant(
        params[e],
        state.env[e],
        state.replicas[e],
        state.next_event[e],
        state.keys[e],
        state.pool[e],
        state.active[e],
        state.retries[e],
        state.retry_due[e],
        state.cursors[e],
        state.faults[e],
        state.scrapes[e],
        state.replica_scrapes[e],
        state.samples[e],
        state.values[e],
        workload.prefix_hit_tokens,
        workload.prefix_parent,
        state.metric_faults[e],
        state.stored_scrapes[e],
        state.stored_counters[e],
        state.stored_replicas[e],
        sink,
    )


@kernel
def run_to_end(params, state, workload, outcomes, replicas, seed):
    """Runs the whole workload on gateway 0, without ticks, until the last request is done."""
    plant = plant_of(params, state, workload, outcomes, 0)
    reset(plant, workload, seed, 0, workload.arrival_s.shape[0], 0.0, 0.0, replicas, 100)
    run_until(plant, workload, 1e300)


@kernel
def tick_many(
    params, state, workload, outcomes, low, high, tick_s, replicas, thresholds, limits, seen, truth
):
    """One control interval of gateways `low` to `high`."""
    for e in range(low, high):
        plant = plant_of(params, state, workload, outcomes, e)
        tick(
            plant,
            workload,
            tick_s,
            replicas[e],
            thresholds[e],
            limits[e],
            state.attribution[e],
            seen[e],
            truth[e],
        )


@kernel
def reset_many(
    params,
    state,
    workload,
    outcomes,
    which,
    seeds,
    rows,
    start_s,
    spans,
    warmup_s,
    replicas,
    thresholds,
    seen,
    truth,
):
    """Starts the gateways in `which` anew and runs them to the end of the warm-up.

    `rows` is `(k, 2)`, the rows of the workload that gateway k of `which` draws from, `start_s`
    where in them the warm-up begins.
    """
    for k in range(which.shape[0]):
        e = which[k]
        plant = plant_of(params, state, workload, outcomes, e)
        reset(
            plant,
            workload,
            seeds[k],
            rows[k, 0],
            rows[k, 1],
            start_s[k],
            spans[k],
            replicas[e],
            thresholds[e],
        )
        run_until(plant, workload, warmup_s)
        bill(plant, warmup_s)
        attribute(plant, state.attribution[e])
        observe(plant, seen[e], truth[e])


@kernel
def show_many(params, state, which, seen):
    """Shows policies the gateways in `which` as metric faults let them be seen."""
    for k in range(which.shape[0]):
        e = which[k]
        store = Store(
            params[e],
            state.env[e],
            state.scrapes[e],
            state.values[e],
            state.metric_faults[e],
            state.stored_scrapes[e],
            state.stored_counters[e],
            state.stored_replicas[e],
        )
        observe_stored(store, seen[e])
