"""The bridge's loop beside the simulated gateway: what it sees, writes and leaves alone."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gatepilot.agents.artifact.runtime import ArtifactPolicy
from gatepilot.agents.baselines.planner.advisor import site_advisor
from gatepilot.agents.evaluation import ControllerDecider, play_controllers
from gatepilot.envs.batch import GatewayBatch
from gatepilot.envs.schema.fields import FIELD_INDEX, FIELDS
from gatepilot.experiments.rehearsal.clock import START_S
from gatepilot.experiments.rehearsal.errors import RehearsalError
from gatepilot.experiments.rehearsal.faults import Blackout
from gatepilot.experiments.rehearsal.plan import RehearsalPlan
from gatepilot.experiments.rehearsal.rehearsal import Rehearsal, rehearse
from gatepilot.experiments.rehearsal.shadow import Shadow, watch
from gatepilot.experiments.rehearsal.source import SimulatedSource
from gatepilot.reward.documented import default_reward

from .rehearsal_kit import TICKS, Quiet, make_plan


def quietly(plan: RehearsalPlan, folder: Path) -> Shadow:
    return watch(plan, folder, lambda ticks: None)


def gateway(plan: RehearsalPlan) -> GatewayBatch:
    manifest = plan.artifact.manifest
    return GatewayBatch(
        plan.trial.scenario,
        1,
        reward_fn=default_reward,
        observation=manifest.observation_spec,
        advisor=site_advisor([plan.trial.site], 1, manifest.advisor),
        split=plan.trial.split,
        episode_ticks=plan.trial.ticks,
        requests=plan.trial.requests,
    )


def replayed(*arguments: str | Path) -> tuple[int, str, str]:
    """`gatepilot-bridge replay` in a process of its own."""
    done = subprocess.run(  # noqa: S603  # our own
        [sys.executable, "-m", "gatepilot.deploy_bridge", "replay", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("which", ["plan", "advised"])
def test_the_policy_is_shown_what_it_is_shown_in_training(
    which: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    plan: RehearsalPlan = request.getfixturevalue(which)
    shadow = quietly(plan, tmp_path)
    batch = gateway(plan)
    window = plan.window
    observation = batch.reset(
        starts_s=np.array([window.start_s]),
        seeds=np.array([window.seed]),
        workloads=np.array([window.round]),
    )
    driver = ControllerDecider([plan.incumbent.made(plan.trial)], [None])
    for tick in shadow.ticks:
        expected = hashlib.sha256(observation[0].astype("<f4").tobytes()).hexdigest()
        assert tick.decision.observation_sha256 == expected, tick.number
        observation = driver.step(batch, observation).observation
    assert len({tick.after.replicas for tick in shadow.ticks}) > 1


def test_the_gateway_goes_as_if_nobody_watched(plan: RehearsalPlan, tmp_path: Path) -> None:
    shadow = quietly(plan, tmp_path)
    alone = play_controllers(plan.trial, [lambda _: plan.incumbent.made(plan.trial)])[0]
    requested = alone.rows[0][:, FIELD_INDEX["replicas_requested"]]
    assert [tick.after.replicas for tick in shadow.ticks] == requested.tolist()
    for column in ("running", "request_rate_rps", "replicas_ready"):
        seen = [tick.row[FIELD_INDEX[column]] for tick in shadow.ticks[1:]]
        assert np.allclose(seen, alone.rows[0][:-1, FIELD_INDEX[column]])


def test_the_incumbent_of_the_bridge_names_what_the_driver_sets(
    plan: RehearsalPlan, tmp_path: Path
) -> None:
    for tick in quietly(plan, tmp_path).ticks:
        assert tick.decision.incumbent is not None
        assert tick.decision.incumbent.replicas == tick.after.replicas


def test_virtual_time_goes_tick_by_tick(plan: RehearsalPlan, tmp_path: Path) -> None:
    at_s = [tick.decision.at_s for tick in quietly(plan, tmp_path).ticks]
    assert at_s == [START_S + 15.0 * i for i in range(TICKS)]


def test_the_source_shows_the_scrape_and_never_the_truth(plan: RehearsalPlan) -> None:
    batch = gateway(plan)
    batch.reset(seeds=np.array([1]))
    batch.truth[:] = -1.0
    reading = SimulatedSource(batch).read(START_S)
    for name, place in FIELD_INDEX.items():
        value = batch.seen[0, place]
        assert reading.values.get(name) == (None if np.isnan(value) else value)
    assert {sample.name for sample in reading.samples} == {field.name for field in FIELDS}
    assert reading.problems == ()


def test_another_process_recomputes_every_decision(rehearsal: Rehearsal) -> None:
    code, out, err = replayed(rehearsal.shadow.ledger, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["identical"]
    assert found["ticks"] == TICKS
    assert found["head_hash"] == rehearsal.shadow.head
    assert found["last_seq"] == rehearsal.shadow.records


def test_an_advised_rehearsal_is_recomputed_and_played_alone(
    advised: RehearsalPlan, tmp_path: Path
) -> None:
    held = rehearse(advised, tmp_path, Quiet())
    assert len(held.counterfactual.episodes) == 2
    code, out, err = replayed(held.shadow.ledger, "--json")
    assert code == 0, err
    assert json.loads(out)["identical"]
    assert json.loads(out)["ticks"] == TICKS


def test_a_changed_byte_of_the_ledger_is_found(rehearsal: Rehearsal, tmp_path: Path) -> None:
    shutil.copytree(rehearsal.shadow.ledger.parent, tmp_path / "copy")
    copy = tmp_path / "copy" / rehearsal.shadow.ledger.name
    content = copy.read_bytes()
    place = content.rindex(b'"outcome":"held"')
    copy.write_bytes(content[:place] + content[place:].replace(b"held", b"hold", 1))
    code, _, err = replayed(copy)
    assert code == 1
    assert "its content is not what was written" in err


def test_the_same_seed_gives_the_same_bytes(
    wave: Path, artifact: ArtifactPolicy, tmp_path: Path
) -> None:
    ledgers = [
        quietly(make_plan(wave, artifact, seed=seed), tmp_path / str(i)).ledger
        for i, seed in enumerate((5, 5, 6))
    ]
    first, second, other = (ledger.read_bytes() for ledger in ledgers)
    assert first == second
    assert first != other


def test_a_blackout_freezes_and_trust_comes_back_after_k_good_ticks(
    wave: Path, artifact: ArtifactPolicy, tmp_path: Path
) -> None:
    shadow = quietly(make_plan(wave, artifact, faults=[Blackout(10, 14)]), tmp_path)
    modes = [tick.decision.mode.mode for tick in shadow.ticks]
    frozen = [i for i, mode in enumerate(modes) if mode != "NORMAL"]
    assert frozen == [0, 1, *range(10, 16)]  # the third good tick counts
    for tick in shadow.ticks[10:14]:
        decision = tick.decision
        assert decision.is_blind
        assert decision.proposal is None
        assert decision.outcome == "held"
        assert [problem.kind for problem in decision.problems] == ["unreachable"]
    plain = quietly(make_plan(wave, artifact), tmp_path / "plain")
    driven = [[tick.after for tick in one.ticks] for one in (shadow, plain)]
    assert driven[0] == driven[1]  # the gateway does not notice


def test_a_ledger_that_is_there_is_left_alone(plan: RehearsalPlan, tmp_path: Path) -> None:
    quietly(plan, tmp_path)
    before = (tmp_path / "ledger.sqlite").read_bytes()
    with pytest.raises(RehearsalError, match=r"ledger\.sqlite: is there already"):
        quietly(plan, tmp_path)
    assert (tmp_path / "ledger.sqlite").read_bytes() == before


def test_a_ledger_that_cannot_be_opened_ends_it(plan: RehearsalPlan, tmp_path: Path) -> None:
    (tmp_path / "ledger.head").mkdir()
    with pytest.raises(ValueError, match=r"ledger\.(head|sqlite): ") as refused:
        quietly(plan, tmp_path)
    assert len(str(refused.value).splitlines()) == 1


def test_a_fault_of_the_bridge_is_not_passed_over(
    plan: RehearsalPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("gatepilot.deploy_bridge.controller.Controller.tick", broken)
    with pytest.raises(RuntimeError, match="tick 0: the bridge failed"):
        quietly(plan, tmp_path)
