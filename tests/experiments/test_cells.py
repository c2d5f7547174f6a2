"""Stored cells: what comes back is what was played, and whatever was changed is found out."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gatepilot.agents.baselines.hpa import HpaParams
from gatepilot.agents.choice import Choice
from gatepilot.agents.contestants import Learned, TrainedPolicy
from gatepilot.agents.digests import json_digest
from gatepilot.agents.episodes import Outcomes
from gatepilot.agents.trial import TrialPlan, plan_trial
from gatepilot.agents.tuning import SilentReporter
from gatepilot.envs.scenario import load_scenario
from gatepilot.envs.schema.observation import ObservationSpec
from gatepilot.experiments import cell_grid
from gatepilot.experiments.cell_checks import CellError
from gatepilot.experiments.cell_grid import Entry, entry
from gatepilot.experiments.cell_job import CellJob
from gatepilot.experiments.cells import Cell, CellStore
from gatepilot.experiments.named_contestants import named_contestant
from gatepilot.experiments.places import Places

from .cli_kit import write_scenario


@dataclass(frozen=True)
class Played:
    """A cell that was played once for all tests."""

    folder: Path
    entry: Entry

    @property
    def planned(self) -> TrialPlan:
        return self.entry.planned

    def read(self, folder: Path | None = None) -> Cell | None:
        return CellStore(folder or self.folder).read(self.entry.key, self.planned)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> TrialPlan:
    path = write_scenario(tmp_path_factory.mktemp("scenario") / "light.yaml")
    return plan_trial(load_scenario(path), split="test", seed=3)


@pytest.fixture(scope="module")
def played(planned: TrialPlan, tmp_path_factory: pytest.TempPathFactory) -> Played:
    places = Places(tmp_path_factory.mktemp("cells"))
    one = entry(named_contestant("random", places.runs), planned, {}, places)
    CellJob(one.key, planned, None, places).run(SilentReporter(), None)
    return Played(places.cells, one)


@pytest.fixture
def copied(played: Played, tmp_path: Path) -> Played:
    """The same in a folder of the test's own."""
    shutil.copytree(played.folder, tmp_path / "cells")
    return replace(played, folder=tmp_path / "cells")


def files(played: Played) -> tuple[Path, Path]:
    path = CellStore(played.folder).path(played.entry.key)
    return path, path.with_suffix(".npz")


def test_what_comes_back_is_what_was_played(played: Played) -> None:
    cell = played.read()
    assert cell is not None
    assert (cell.policy, cell.scenario) == ("random", "light")
    assert cell.gate == (0.0,) * 4
    assert [episode.window for episode in cell.episodes] == [0, 1, 2, 3]
    course = CellStore(played.folder).course(played.entry.key, cell)
    np.testing.assert_array_equal(course.returns, [e.documented_return for e in cell.episodes])
    np.testing.assert_array_equal(course.changes, [e.changes for e in cell.episodes])
    assert course.rows.shape[:2] == (4, 5)


def test_playing_again_writes_the_same_bytes(played: Played, tmp_path: Path) -> None:
    places = Places(tmp_path)
    CellJob(played.entry.key, played.planned, None, places).run(SilentReporter(), 1)
    again = replace(played, folder=tmp_path)
    for first, second in zip(files(played), files(again), strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert len(list(tmp_path.rglob("*.*"))) == 2


def test_what_was_never_played_is_absent(played: Played, tmp_path: Path) -> None:
    assert played.read(tmp_path) is None


def change(content: dict[str, Any], **changes: object) -> None:
    content["cell"]["episodes"][0] |= changes


def forged(played: Played, edit: Callable[[dict[str, Any]], object]) -> str:
    """What is said of a cell that was edited by somebody who set its hash right."""
    path, _ = files(played)
    content = json.loads(path.read_text())
    edit(content)
    content["sha256"] = json_digest([content["ingredients"], content["cell"]])
    path.write_text(json.dumps(content))
    with pytest.raises(CellError) as caught:
        played.read()
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert len(message.splitlines()) == 1
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda c: change(c, documented_return=9.0), "its episodes are not those of its course"),
        (lambda c: change(c, violation_rate=0.2), "its episodes are not those of its course"),
        (lambda c: change(c, seed=1), "its episodes are not those of its course"),
        (lambda c: change(c, changes="2"), "cell.episodes.0.changes: Input should be a valid int"),
        (lambda c: change(c, note="hello"), "holds keys that no cell has"),
        (lambda c: c["cell"]["episodes"].pop(), "its episodes are not those of its course"),
        (lambda c: c["cell"]["episodes"].clear(), "4 courses for 0 x 4 episodes"),
        (lambda c: c["cell"].pop("gate"), "cell.gate: Field required"),
        (lambda c: c["cell"]["gate"].pop(), "3 windows, 4 are planned"),
        (lambda c: c["cell"].update(gate=[0.3, 0, 0, 0]), "its gate is no share of the ticks"),
        (lambda c: c["cell"].update(gate=[0.2, 0, 0, 0]), "4 courses for 1 x 3 episodes"),
        (lambda c: c["cell"].update(gate=[1, 1, 1, 1]), "do not fit together"),
        (lambda c: c["cell"].update(course=None), "do not fit together"),
        (lambda c: c["cell"].update(course="ff"), ".npz does not fit its hash"),
        (lambda c: c["cell"].update(policy="hpa"), "is about hpa on light"),
        (lambda c: c["ingredients"].update(ticks=6), "holds another cell than its name says"),
        (lambda c: c.update(digest="0"), "holds another cell than its name says"),
        (lambda c: c.update(more=1), "expected the keys cell, digest, ingredients, sha256"),
    ],
)
def test_a_forged_cell_is_found_out(
    copied: Played, edit: Callable[[dict[str, Any]], object], words: str
) -> None:
    assert words in forged(copied, edit)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ('{"digest": NaN}', "no JSON"),
        ("[]", "expected the keys"),
    ],
)
def test_a_damaged_file_is_found_out(copied: Played, text: str, words: str) -> None:
    files(copied)[0].write_text(text)
    with pytest.raises(CellError, match=words):
        copied.read()


def test_a_file_with_something_else_in_it_is_no_course(copied: Played) -> None:
    _, course = files(copied)
    for content in (b"", b"not a zip file", b"PK\x03\x04 a broken one"):
        course.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        assert "holds no course" in forged(copied, partial(set_course, digest=digest))


def set_course(content: dict[str, Any], digest: str) -> None:
    content["cell"]["course"] = digest


def test_any_changed_byte_of_a_course_is_found_out(copied: Played) -> None:
    _, course = files(copied)
    whole = course.read_bytes()
    for place in range(0, len(whole), len(whole) // 23):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        course.write_bytes(damaged)
        with pytest.raises(CellError, match=r"\.npz does not fit its hash"):
            copied.read()
    course.unlink()
    with pytest.raises(CellError, match=r"\.npz cannot be read \(No such file"):
        copied.read()


def doctored(played: Played, **arrays: Callable[[Outcomes], object]) -> str:
    """What is said where course, episodes and all hashes agree, but not with each other's sums."""
    path, course = files(played)
    cell = played.read()
    assert cell is not None
    before = CellStore(played.folder).course(played.entry.key, cell)
    made = {name: make(before) for name, make in arrays.items()}
    np.savez_compressed(course, **(asdict(before) | made))
    content = json.loads(path.read_text())
    content["cell"]["course"] = hashlib.sha256(course.read_bytes()).hexdigest()
    path.write_text(json.dumps(content))
    return forged(played, lambda _: None)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"returns": lambda o: o.returns + 1.0}, "its returns are not what its replicas and"),
        ({"returns": lambda o: o.returns + 99 * 0.15}, "its returns are not what its replicas"),
        ({"violation_rate": lambda o: o.violation_rate + 0.2}, "violation_rate is not the share"),
        ({"violations": lambda o: ~o.violations}, "violation_rate is not the share"),
        ({"violations": lambda o: o.violations.astype(int)}, "another shape or type"),
        ({"rows": lambda o: o.rows[:, :3]}, "its rows have the shape (4, 3, "),
        ({"rows": lambda o: o.rows * np.nan}, "replicas_requested or replicas_draining is missing"),
        ({"rows": lambda o: o.rows + 9}, "its returns are not what its replicas"),
        ({"error_rate": lambda o: o.error_rate - 1}, "error_rate is no share"),
        ({"error_rate": lambda o: o.error_rate[:2]}, "its figures have another shape"),
        ({"changes": lambda o: o.changes + 6}, "more changes than ticks"),
        ({"replica_hours": lambda o: -o.replica_hours}, "is not above 0"),
    ],
)
def test_figures_that_do_not_add_up_are_found_out(
    copied: Played, arrays: dict[str, Callable[[Outcomes], object]], words: str
) -> None:
    assert words in doctored(copied, **arrays)


def test_windows_that_nothing_keeps_are_a_cell_without_episodes(tmp_path: Path) -> None:
    hopeless = write_scenario(
        tmp_path / "hopeless.yaml",
        cluster={"max_replicas": 1, "max_num_seqs": 1, "initial_replicas": 1},
        workload={"trace": str(tmp_path / "light.csv"), "to_s": 900.0, "rate_scale": 40.0},
    )
    planned = plan_trial(load_scenario(hopeless), split="test")
    places = Places(tmp_path / "cells")
    one = entry(named_contestant("hpa", places.runs), planned, {}, places)
    CellJob(one.key, planned, None, places).run(SilentReporter(), None)
    cell = Played(places.cells, one).read()
    assert cell is not None
    assert cell.episodes == ()
    assert all(share > 0 for share in cell.gate)
    assert [path.suffix for path in (tmp_path / "cells").rglob("*.*")] == [".json"]


def test_a_key_tells_apart_all_that_decides_a_cell(
    planned: TrialPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places(tmp_path)
    scenario = planned.scenario
    hpa, other = named_contestant("hpa", tmp_path), named_contestant("hpa@unit", tmp_path)
    choices = [Choice("hpa", HpaParams()), Choice("hpa", HpaParams(sync_s=30.0))]
    trained = [
        Learned("run:a", (TrainedPolicy(None, ObservationSpec(), "f", 1, weights),))  # type: ignore[arg-type]
        for weights in ("w1", "w2")
    ]
    faster = replace(scenario, cluster=replace(scenario.cluster, cold_start_s=1.0))
    entries = [
        entry(hpa, planned, {}, places),
        entry(other, planned, {}, places),
        *(entry(hpa, planned, {"hpa": choice}, places) for choice in choices),
        *(entry(policy, planned, {}, places) for policy in trained),
        entry(hpa, replace(planned, scenario=faster), {}, places),
        entry(hpa, planned.keeping([True, True, True, False]), {}, places),
        *(
            entry(hpa, plan_trial(scenario, split=split, seed=seed, ticks=ticks), {}, places)
            for split, seed, ticks in (("test", 4, 5), ("train", 3, 5), ("test", 3, 4))
        ),
    ]
    trace = Path(str(scenario.workload.trace))
    before = trace.read_text()
    trace.write_text(before.replace("0.5,100,4", "0.5,101,4"))
    entries.append(entry(hpa, planned, {}, places))
    trace.write_text(before)
    monkeypatch.setattr(cell_grid, "sources_digest", lambda _: "other code")
    entries.append(entry(hpa, planned, {}, places))
    digests = [one.key.digest for one in entries]
    assert len(set(digests)) == len(digests)
    monkeypatch.undo()
    assert entry(hpa, planned, {}, places).key.digest == digests[0]


LISTS_CODE = """
import sys
from gatepilot.agents import {modules}
package = "gatepilot."
names = [n[len(package):].replace(".", "/") for n in sys.modules if n.startswith(package)]
print(*names)
"""


def test_the_code_of_a_rule_is_all_that_is_hashed_and_no_training(tmp_path: Path) -> None:
    rule = named_contestant("hpa", tmp_path)
    globs = cell_grid.sources_of([rule])
    root = Path(cell_grid.__file__).parents[1]
    hashed = {str(path.relative_to(root)) for glob in globs for path in root.glob(glob)}
    assert "agents/training.py" not in hashed
    script = LISTS_CODE.format(modules="bounds, contestant, evaluation, tuning")
    loaded = subprocess.run(  # noqa: S603  # our own modules, in an interpreter without others
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    modules = {f"{name}.py" for name in loaded if (root / f"{name}.py").exists()}
    assert "agents/baselines/hpa.py" in modules
    # how things are hashed decides no result
    assert modules - hashed <= {"agents/digests.py"}
    policy = TrainedPolicy(None, ObservationSpec(), "f", 1, "w")  # type: ignore[arg-type]
    with_network = cell_grid.sources_of([rule, Learned("run:a", (policy,))])
    more = {str(path.relative_to(root)) for glob in with_network for path in root.glob(glob)}
    assert hashed < more
    assert {"agents/networks.py", "agents/learned_policy.py", "agents/artifact/runtime.py"} <= more


def test_names_make_no_folders_of_their_own(planned: TrialPlan, tmp_path: Path) -> None:
    one = entry(named_contestant("fixed:2", tmp_path), planned, {}, Places(tmp_path))
    store = CellStore(tmp_path)
    for name in ("../../x", "/etc/x", "..", "a\nb", "x" * 999, "run:1,2"):
        path = store.path(replace(one.key, policy=name, scenario=name))
        assert path.parent.parent == tmp_path
        assert path.parent.name not in ("", ".", "..")
        assert len(path.name) < 100
        assert path.name.isprintable()
