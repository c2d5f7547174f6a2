"""The bar over a leaderboard's tables: whoever is above the bound by more than noise is named."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gatepilot.agents.digests import json_digest, sources_digest
from gatepilot.experiments.cell_grid import RULE_SOURCES

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "bound_bars.py"


@pytest.fixture(scope="module")
def bar() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bound_bars", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)  # as where it is run as a script
        spec.loader.exec_module(module)
    return module


Gap = tuple[float, tuple[float, float] | None]


def write_board(folder: Path, gaps: dict[str, dict[str, Gap]]) -> None:
    """Tables of made-up gaps, by scenario and policy, and their hashes."""
    scenarios, hashes = {}, {}
    for name, of_policies in gaps.items():
        rows: list[dict[str, Any]] = [{"policy": "seer", "gap": 0.0, "gap_ci95": [0.0, 0.0]}]
        rows += [
            {"policy": policy, "gap": gap, "gap_ci95": None if ends is None else list(ends)}
            for policy, (gap, ends) in of_policies.items()
        ]
        scenarios[name], hashes[name] = {"table": rows}, {"table": json_digest(rows)}
    digests = {"sources": sources_digest(RULE_SOURCES), "scenarios": hashes}
    board = {"spec": {"bound": "seer"}, "digests": digests, "scenarios": scenarios}
    (folder / "leaderboard.json").write_text(json.dumps(board))
    (folder / "frozen.json").write_text(json.dumps({"digests": digests}))


def test_to_be_above_within_noise_is_not_to_beat_it(bar: ModuleType, tmp_path: Path) -> None:
    write_board(tmp_path, {"calm": {"far": (9.0, (8.0, 10.0)), "near": (-0.1, (-0.3, 0.1))}})
    met, figures = bar.unbeaten(tmp_path)
    assert met
    assert figures["bound"] == "seer"
    assert figures["scenarios"]["calm"] == {
        "nearest": {"policy": "near", "gap": -0.1, "gap_ci95": [-0.3, 0.1]},
        "above": [],
        "unjudged": [],
    }


@pytest.mark.parametrize(
    ("gap", "above", "unjudged"),
    [((-0.2, (-0.3, -0.1)), ["rival"], []), ((3.0, None), [], ["rival"])],
)
def test_one_that_beats_it_or_cannot_be_judged_is_named(
    bar: ModuleType, tmp_path: Path, gap: Gap, above: list[str], unjudged: list[str]
) -> None:
    write_board(tmp_path, {"calm": {"far": (9.0, (8.0, 10.0))}, "storm": {"rival": gap}})
    met, figures = bar.unbeaten(tmp_path)
    assert not met
    assert figures["scenarios"]["storm"]["above"] == above
    assert figures["scenarios"]["storm"]["unjudged"] == unjudged
    assert figures["scenarios"]["calm"]["above"] == []


def test_a_board_of_nothing_proves_nothing(bar: ModuleType, tmp_path: Path) -> None:
    write_board(tmp_path, {})
    assert bar.unbeaten(tmp_path)[0] is False


def test_edited_tables_and_those_of_other_code_are_refused(bar: ModuleType, tmp_path: Path) -> None:
    write_board(tmp_path, {"calm": {"rival": (-0.2, (-0.3, -0.1))}})
    path = tmp_path / "leaderboard.json"
    made = json.loads(path.read_text())

    def changed(place: str, **changes: Any) -> None:  # noqa: ANN401
        board = json.loads(json.dumps(made))
        (board["scenarios"]["calm"]["table"][1] if place == "row" else board["digests"]).update(
            changes
        )
        path.write_text(json.dumps(board))

    changed("row", gap=0.2, gap_ci95=[0.1, 0.3])
    with pytest.raises(ValueError, match="the table of calm is not the one that was hashed"):
        bar.unbeaten(tmp_path)
    changed("digests", sources="0")
    with pytest.raises(ValueError, match=r"leaderboard\.json and frozen\.json are of two runs"):
        bar.unbeaten(tmp_path)
    frozen = tmp_path / "frozen.json"
    frozen.write_text(json.dumps({"digests": json.loads(path.read_text())["digests"]}))
    with pytest.raises(ValueError, match="made by other code than this"):
        bar.unbeaten(tmp_path)


def test_without_a_board_it_ends_with_2(
    bar: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,  # noqa: ANN401
) -> None:
    monkeypatch.setattr("sys.argv", ["bound_bars.py", "unbeaten", "--board", str(tmp_path)])
    assert bar.main() == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "leaderboard.json" in shown.err
