"""`gatepilot profiles`: the catalogue, one profile, and a fit to measured rows."""

import json
import re
from pathlib import Path

import pytest

from gatepilot.envs.profiles.profile import load_profile, profile_ids

from .cli_kit import Cli, contents, write_trace
from .loop_kit import DENSE, loop_runs

DOCS = Path(__file__).parents[2] / "docs"
LLAMA_70B = "llama-3.1-70b-fp8-h100_sxm-tp2-vllm"


def write_rows(path: Path) -> Path:
    lines = ["concurrency,prompt_tokens,output_tokens,tpot_s,ttft_s"]
    for run in loop_runs(DENSE, seed=7):
        row = run.row
        lines.append(
            f"{row.concurrency},{row.prompt_tokens},{row.output_tokens},{row.tpot_s},{row.ttft_s}"
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_catalogue(cli: Cli) -> None:
    code, out, _ = cli("profiles")
    assert code == 0
    for name in profile_ids():
        assert name in out
    found = cli.json("profiles")["profiles"]
    assert [one["id"] for one in found] == list(profile_ids())
    for one in found:
        assert one["output_tokens_per_s"]["value"] > 500
        assert one["memory"]["problem"] is None
        assert one["start_times"]["cold_s"] > one["start_times"]["cached_s"]


@pytest.mark.parametrize("words", [("profiles", LLAMA_70B), ("profiles", "show", LLAMA_70B)])
def test_one_profile(cli: Cli, words: tuple[str, ...]) -> None:
    code, out, _ = cli(*words)
    assert code == 0
    assert out.startswith(LLAMA_70B)
    for text in ("2 x h100_sxm", "KV cache 232,456 tokens", "Apache-2.0", "upb-cn"):
        assert text in out
    found = cli.json(*words)
    profile = load_profile(LLAMA_70B)
    assert found["step"]["base_s"] == profile.base_s
    assert found["fit"]["concurrency"] == [4, 64]
    # 64 requests of 2,048 tokens fit into the cache: C / TPOT
    tpot_s = float(profile.step.tpot_s(64, 1024, 1024))
    assert found["output_tokens_per_s"]["value"] == pytest.approx(64 / tpot_s)


def test_a_plot(cli: Cli, tmp_path: Path) -> None:
    for name in ("tpot.png", "tpot.svg"):
        assert cli("profiles", LLAMA_70B, "--plot", tmp_path / name)[0] == 0
    assert (tmp_path / "tpot.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "tpot.svg").read_bytes()
    assert cli("profiles", LLAMA_70B, "--plot", tmp_path / "tpot.svg")[0] == 0
    assert (tmp_path / "tpot.svg").read_bytes() == svg
    assert contents(tmp_path) == ["tpot.png", "tpot.svg"]


def test_a_fit_to_own_rows(cli: Cli, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.csv")
    mine = tmp_path / "mine.json"
    words = ("profiles", "fit", rows, "--shortest-share", "0.8", "--seed", "7", "--out", mine)
    code, out, _ = cli(
        *words, "--model", "mine", "--gpu", "a100", "--gpus", "2", "--kv-tokens", "200000"
    )
    assert code == 0
    assert "12 rows: mean error 0.0%" in out
    profile = load_profile(mine)
    assert profile.id == "mine"
    assert profile.base_s == pytest.approx(DENSE.base_s, rel=0.005)
    assert profile.per_prefill_token_s == pytest.approx(DENSE.per_prefill_token_s, rel=0.005)
    assert (profile.gpu, profile.gpus_per_replica) == ("a100", 2)
    assert profile.kv_capacity_tokens == 200_000
    assert profile.fit.points == 12
    assert profile.fit.loo_mape is not None
    assert profile.fit.loo_mape < 0.02
    assert profile.source == "fitted by gatepilot to rows.csv"
    # and it is a profile that commands take
    found = cli.json(
        *("simulate", "--trace", write_trace(tmp_path / "t.csv"), "--profile", mine),
        *("--replicas", "2"),
    )
    assert found["ok"] == 400
    assert cli.json("profiles", mine)["id"] == "mine"


def test_the_rows_of_the_documentation(cli: Cli, tmp_path: Path) -> None:
    """Five rows are enough for a fit; four of them are not, and that is said."""
    found = re.search(r"```csv\n(.*?)```", (DOCS / "profiles.md").read_text(), re.DOTALL)
    assert found is not None
    rows = tmp_path / "rows.csv"
    rows.write_text(found[1])
    mine = tmp_path / "mine.json"
    code, out, err = cli("profiles", "fit", rows, "--gpus", "2", "--out", mine)
    assert code == 0, err
    assert "5 rows: mean error" in out
    step = json.loads(mine.read_text())["step"]  # they were made with these coefficients
    llama = load_profile(LLAMA_70B)
    assert step["base_ms"] == pytest.approx(1e3 * llama.base_s, rel=0.01)
    assert step["per_prefill_token_ms"] == pytest.approx(1e3 * llama.per_prefill_token_s, rel=0.01)
    assert "each left out: not known" in out
    assert json.loads(mine.read_text())["fit"]["loo_mape"] is None
    assert load_profile(mine).fit.loo_mape is None
    assert "each point left out - %" in cli("profiles", mine)[1]


def test_experts_that_take_no_time_are_left_out(cli: Cli, tmp_path: Path) -> None:
    """Written with their share, the file would be no profile."""
    rows = write_rows(tmp_path / "rows.csv")
    mine = tmp_path / "mine.json"
    words = ("--shortest-share", "0.8", "--seed", "7", "--expert-share", "0.2", "--out", mine)
    code, _, err = cli("profiles", "fit", rows, *words)
    assert code == 0, err
    assert load_profile(mine).base_s > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--weights-gib", "100", "--vram-gib", "10"),
            "memory.weights_gib_per_gpu: weights of 100 GiB do not fit into the 10 GiB of its 1",
        ),
        (("--weights-gib", "inf"), "memory.weights_gib_per_gpu: inf is not a number"),
        (("--expert-share", "1"), "--expert-share 1: expected a share below 1"),
        (
            ("--like", LLAMA_70B, "--kv-tokens", "900000"),
            "memory.kv_capacity_tokens: 900,000 tokens take",
        ),
    ],
)
def test_a_profile_that_cannot_be_is_not_written(
    cli: Cli, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    rows = write_rows(tmp_path / "rows.csv")
    assert message in cli.refusal("profiles", "fit", rows, *words, "--out", "mine.json")
    assert contents(tmp_path) == ["rows.csv"]


def test_rows_that_the_cache_binds_are_left_out(cli: Cli, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.csv")
    words = (
        "profiles",
        "fit",
        rows,
        "--shortest-share",
        "0.8",
        "--seed",
        "7",
        "--kv-tokens",
        "90000",
    )
    # 32 x (4,096 + 512) tokens are more
    code, out, _ = cli(*words)
    assert code == 0
    assert out.startswith("left out, for the KV cache binds them: 1\n11 rows: mean error 0.0%")


def test_a_fit_takes_the_rest_from_another_profile(cli: Cli, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.csv")
    found = cli.json("profiles", "fit", rows, "--shortest-share", "0.8", "--like", LLAMA_70B)
    assert found["memory"]["vram_gib_per_gpu"] == 80
    assert found["cold_start"]["cached_s"] == load_profile(LLAMA_70B).start_times.cached_s
    assert "published_step" not in found


QUICKLY_FITTED = (LLAMA_70B, "gpt-oss-120b-fp4-h100_sxm-tp2-vllm")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICKLY_FITTED else pytest.mark.slow)
        for name in profile_ids()
        if load_profile(name).kind == "measured-fit"
    ],
)
def test_the_catalogue_can_be_fitted_again(cli: Cli, traces_dir: Path, name: str) -> None:
    """The shipped coefficients are what this command makes of the measured rows."""
    found = cli.json(
        "profiles", "fit", traces_dir / "serving-silicon-points.csv.gz", "--like", name
    )
    shipped = load_profile(name)
    step = (shipped.base_s, shipped.per_seq_s, shipped.per_ctx_token_s, shipped.per_prefill_token_s)
    names = ("base_ms", "per_seq_ms", "per_1k_ctx_tokens_ms", "per_prefill_token_ms")
    assert [found["step"][key] for key in names] == pytest.approx(
        [value * (1e6 if "ctx" in key else 1e3) for key, value in zip(names, step, strict=True)],
        rel=1e-5,
    )
    assert found["fit"]["mape"] == pytest.approx(shipped.fit.mape, rel=1e-4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("llama-3.1-70b",), "unknown profile; did you mean llama"),
        (("--plot", "x.png"), "--plot draws one profile: name it"),
        ((LLAMA_70B, "--plot", "x.gif"), "--plot x.gif: expected a name that ends in .png"),
        (
            (LLAMA_70B, "--plot", "nowhere/x.png"),
            "nowhere/x.png: the folder nowhere does not exist",
        ),
        (("fit", "none.csv"), "none.csv: cannot be read"),
        (("fit", "none.csv", "--out", "x.txt"), "x.txt: expected a name that ends in .json"),
        (("fit", "serving-silicon-points.csv.gz"), "say which one with --like"),
        (("fit", "none.csv", "--like", "x"), "x: unknown profile"),
    ],
)
def test_refusals(cli: Cli, words: tuple[str, ...], message: str) -> None:
    assert message in cli.refusal("profiles", *words)
