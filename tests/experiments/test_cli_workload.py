"""`gatepilot workload`: what it prints and writes, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest

from gatepilot.envs.workload import fit as fit_module
from gatepilot.envs.workload.model import WorkloadModel, load_model
from gatepilot.envs.workload.trace import load_trace

from .cli_kit import Cli, contents, write_trace

COMMAND = "workload"


def poisson_trace(path: Path, *, tenants: bool = False, seed: int = 3) -> Path:
    """A csv trace of twenty minutes, 5 requests a second, two of three by tenant b."""
    rng = np.random.default_rng(seed)
    n = 6000
    arrival_s = np.sort(rng.uniform(0, 1200, n))
    lengths = np.exp(rng.normal([6.0, 4.0], 0.6, (n, 2))).astype(int) + 1
    client = np.where(rng.random(n) < 2 / 3, "b", "a")
    rows = [
        f"{time_s:.6f},{prompt},{output}" + f",{name}" * tenants
        for time_s, (prompt, output), name in zip(arrival_s, lengths, client, strict=True)
    ]
    header = "arrival_s,prompt_tokens,output_tokens" + ",client" * tenants
    path.write_text(header + "\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def without_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick fit: bursts are searched for elsewhere."""

    def unchanged(model: WorkloadModel, *_: object) -> WorkloadModel:
        return model

    monkeypatch.setattr(fit_module, "_with_bursts", unchanged)


def test_describe_a_trace(cli: Cli, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv")
    found = cli.json(COMMAND, "describe", trace)
    assert found["workload"] == "t.csv"
    assert found["kind"] == "trace"
    assert found["requests"] == 400
    assert found["mean_rate_rps"] == 2.0
    assert [w["window_s"] for w in found["windows"]] == [1.0, 15.0, 60.0]
    assert found["windows"][1]["local_dispersion"] < 0.1  # an even load
    assert found["prompt"]["quantiles"]["p50"] == 103.0
    part = cli.json(COMMAND, "describe", trace, "--from", "50", "--to", "100")
    assert (part["requests"], part["span_s"]) == (100, 50.0)
    code, out, _ = cli(COMMAND, "describe", trace)
    assert code == 0
    assert "400 requests in 3.3 minutes, 2.00 requests/s" in out
    assert "local dispersion" in out


def test_describe_a_model_and_draw_it(cli: Cli, tmp_path: Path) -> None:
    found = cli.json(
        *(COMMAND, "describe", "azure-code-2023", "--to", "600"),
        *("--plot", "code.png", "--report", "code.html"),
    )
    assert found["kind"] == "model"
    assert found["facts"]["licence"].startswith("CC-BY 4.0")
    assert found["windows"][1]["local_dispersion"] > 10
    assert (tmp_path / "code.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "code.html").read_text()
    assert page.count("<figure>") == 3
    assert "Microsoft Azure" in page
    assert 'src="http' not in page
    assert contents(tmp_path) == ["code.html", "code.png"]


def test_pictures_of_one_load_are_the_same_bytes(cli: Cli, tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg", "a.png", "b.png"):
        code, _, err = cli(COMMAND, "describe", "azure-conv-2023", "--to", "60", "--plot", name)
        assert code == 0, err
    for ending in ("svg", "png"):
        one, two = ((tmp_path / f"{name}.{ending}").read_bytes() for name in "ab")
        assert one == two


def test_tenants_prefixes_and_rounded_times_are_told(cli: Cli, tmp_path: Path) -> None:
    lines = [
        {"timestamp": 3000 * (i // 6), "input_length": 600, "output_length": 5, "hash_ids": [0, i]}
        for i in range(60)
    ]
    path = tmp_path / "m.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    _, out, _ = cli(COMMAND, "describe", path)
    assert "prefix reuse (a cache that forgets nothing): 83.9 % of prompt tokens" in out
    assert "only 16.7 % of the arrival times are distinct" in out
    _, out, _ = cli(COMMAND, "describe", poisson_trace(tmp_path / "t.csv", tenants=True))
    assert "Tenants" in out
    assert "tenant" in out


@pytest.mark.usefixtures("without_bursts")
def test_fit_writes_a_model_and_checks_it(cli: Cli, tmp_path: Path) -> None:
    trace = poisson_trace(tmp_path / "t.csv", tenants=True)
    found = cli.json(
        *(COMMAND, "fit", trace, "-o", "m.json", "--by-client", "--bins", "3"),
        *("--licence", "internal", "--seeds", "4", "--report", "m.html", "--plot", "m.svg"),
    )
    assert found["check"]["passed"] is True
    assert found["check"]["seeds"] == 4
    assert found["bytes"] == (tmp_path / "m.json").stat().st_size
    model = load_model(tmp_path / "m.json")
    assert model.facts.name == "m"
    assert model.facts.licence == "internal"
    assert model.facts.fitted_to == "t.csv"
    assert [group.label for group in model.groups] == ["a", "b"]
    assert model.groups[0].rate_rps.size == 3
    assert model.mean_rate_rps == pytest.approx(5.0, rel=0.01)
    assert "Local dispersion" in (tmp_path / "m.html").read_text()
    assert contents(tmp_path) == ["m.html", "m.json", "m.svg", "t.csv"]
    code, out, _ = cli(COMMAND, "check", "m.json", "--trace", trace, "--seeds", "4")
    assert code == 0
    assert "m is like its trace." in out


@pytest.mark.usefixtures("without_bursts")
def test_a_model_unlike_its_trace_ends_with_one(cli: Cli, tmp_path: Path) -> None:
    trace = poisson_trace(tmp_path / "t.csv")
    assert cli(COMMAND, "fit", trace, "-o", "m.json", "--seeds", "2")[0] == 0
    other = poisson_trace(tmp_path / "u.csv", seed=4)
    other.write_text(other.read_text().replace(",1", ",21"))  # other lengths
    code, out, _ = cli(
        COMMAND, "check", "m.json", "--trace", other, "--seeds", "2", "--out", "c.json"
    )
    assert code == 1
    assert "m is not like its trace." in out
    content = json.loads((tmp_path / "c.json").read_text())
    assert content["models"][0]["passed"] is False


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_what_is_generated_reads_back(cli: Cli, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"g.{ending}"
    found = cli.json(
        COMMAND, "generate", "servegen-tenants", "-o", out, "--from", "3600", "--to", "4200"
    )
    drawn = load_model("servegen-tenants").sample(3600.0, 4200.0, 0)
    again = load_trace(out)
    assert found["requests"] == len(again) == len(drawn)
    assert again.arrival_s == pytest.approx(drawn.arrival_s, abs=1e-6)
    assert again.prompt_tokens.tolist() == drawn.prompt_tokens.tolist()
    assert drawn.client is not None
    assert again.client is not None
    names = [drawn.client_names[i] for i in drawn.client]
    assert [again.client_names[i] for i in again.client] == names


def test_generating_less(cli: Cli) -> None:
    half = ("--rate-scale", "0.5")
    noon = ("--from", "43200", "--to", "46800")
    much = cli.json(COMMAND, "generate", "servegen-tenants", "-o", "a.csv", *noon)
    thin = cli.json(COMMAND, "generate", "servegen-tenants", "-o", "b.csv", *noon, *half)
    few = cli.json(
        *(COMMAND, "generate", "servegen-tenants", "-o", "c.csv", *noon, *half),
        "--whole-tenants",
    )
    for found in (thin, few):
        assert found["requests"] == pytest.approx(much["requests"] / 2, rel=0.1)
    assert len(thin["clients"]) == len(much["clients"])
    assert len(few["clients"]) < len(much["clients"])


def test_a_folder_of_statistics_is_a_model(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "m-tiny"
    folder.mkdir()
    (folder / "chunk-0-trace.csv").write_text("0,3,1,Gamma,1.0,1\n600,1,1,Gamma,0.5,1\n")
    histograms = {"0": {"input_tokens": "{40: 1.0}", "output_tokens": "{9: 1.0}"}}
    (folder / "chunk-0-dataset.json").write_text(json.dumps(histograms))
    found = cli.json(COMMAND, "describe", folder)
    assert found["workload"] == "m-tiny"
    assert found["requests"] == pytest.approx(2400, rel=0.1)
    assert cli.json(COMMAND, "generate", folder, "-o", "g.csv")["requests"] > 2000


def test_a_load_generator_is_fitted_without_ratios(cli: Cli, tmp_path: Path) -> None:
    """Two requests a second, evenly: no model is as even, so it is not alike, and written."""
    trace = write_trace(tmp_path / "even.csv")
    code, out, err = cli(COMMAND, "fit", trace, "-o", "m.json", "--seeds", "2", "--plot", "m.png")
    assert (code, "is not like its trace" in out) == (1, True), err
    assert "Traceback" not in err
    assert load_model(tmp_path / "m.json").mean_rate_rps == pytest.approx(2.0)
    code, out, err = cli(
        *(COMMAND, "check", tmp_path / "m.json", "--trace", trace, "--seeds", "2", "--json")
    )
    assert code == 1, err
    found = json.loads(out)["models"][0]["dispersions"]
    assert [part["ratio"] for part in found] == [None, None]


def test_checking_without_traces_is_refused(cli: Cli) -> None:
    line = cli.refusal(COMMAND, "check", "azure-conv-2023")
    assert "needs azure-2023-conv-h1.csv.gz; name its folder with --traces" in line


@pytest.mark.timeout(60)
def test_shipped_models_against_their_traces(cli: Cli, traces_dir: Path, tmp_path: Path) -> None:
    names = ["azure-conv-2023", "mooncake-conversation"]
    options = ("--seeds", "4", "--report", "c.html")
    code, out, err = cli(COMMAND, "check", *names, "--traces", traces_dir, *options)
    assert code == 0, out + err
    for name in names:
        assert name in out
        assert f"checking {name} ..." in err
    assert contents(tmp_path) == ["c.html"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("describe", "azure-conv"), "unknown workload model; did you mean azure-conv-2023?"),
        (("describe", "none.csv"), "none.csv: no such file"),
        (("describe", "azure-conv-2023", "--from", "9", "--to", "3"), "no range of seconds"),
        (("describe", "t.csv", "--to", "9999"), "no range within the workload's"),
        (("describe", "azure-conv-2023", "--to", "1e12"), "less than or equal to 100000000"),
        (("describe", "azure-conv-2023", "--to", "9e7"), "requests; expected at most 100,000,000"),
        (("describe", "unix.csv"), "row 1, arrival_s: 1700000000 s is more than three years"),
        (("fit", "once.csv", "-o", "m.json"), "all 30 requests arrive at 7 s; there are no gaps"),
        (("describe", "t.csv", "--plot", "x.pdf"), "ends in .png, .svg"),
        (("describe", "t.csv", "--report", "no/x.html"), "the folder no does not exist"),
        (("describe", "late.csv", "--to", "5"), "no request between these seconds"),
        (("describe", "empty"), "no file chunk-N-trace.csv"),
        (("fit", "t.csv", "-o", "m.txt"), "ends in .json"),
        (("fit", "t.csv", "-o", "m.json", "--by-client"), "name no tenants"),
        (("fit", "azure-conv-2023", "-o", "m.json"), "is a model already"),
        (("fit", "late.csv", "-o", "m.json"), "too few to fit"),
        (("generate", "t.csv", "-o", "g.csv"), "is a trace, expected a model"),
        (("generate", "azure-conv-2023", "-o", "g.txt"), "ends in .csv, .csv.gz, .parquet"),
        (("generate", "azure-conv-2023", "-o", "g.csv", "--rate-scale", "0"), "rate_scale: 0"),
        (("generate", "azure-conv-2023", "-o", "g.csv", "--to", "1e-6"), "no request to write"),
        (
            ("generate", "azure-conv-2023", "-o", "g.csv", "--rate-scale", "2", "--whole-tenants"),
            "needs --rate-scale up to 1",
        ),
        (("check", "azure-conv-2023", "servegen-r1", "--trace", "t.csv"), "goes with one model"),
        (("check", "azure-conv-2023", "servegen-r1", "--plot", "t.svg"), "goes with one model"),
        (("generate", "azure-conv-2023", "-o", "g.csv", "--to", "1e12"), "'--to'"),
        (
            ("generate", "azure-conv-2023", "-o", "g.csv", "--to", "1e8"),
            "at most 100,000,000",
        ),
        (("generate", "azure-conv-2023", "-o", "g.csv", "--rate-scale", "1e9"), "'--rate-scale'"),
        (("fit", "t.csv", "-o", "m.json", "--bins", "99999999999999"), "'--bins'"),
        (("fit", "t.csv", "-o", "m.json", "--seed", "9" * 23), "'--seed'"),
        (
            ("check", "azure-conv-2023", "--out", "c.csv"),
            "c.csv: expected a name that ends",
        ),
        (("check", "t.csv"), "is a trace, expected a model"),
        (("check", "azure-conv-2023", "--trace", "long.csv"), "does not fit the model"),
    ],
)
def test_refusals(cli: Cli, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    write_trace(tmp_path / "t.csv")
    write_trace(tmp_path / "late.csv", "50,1,1", "60,1,1")
    write_trace(tmp_path / "long.csv", "0,1,1", "9999,1,1")
    write_trace(tmp_path / "unix.csv", "1.7e9,1,1", "1700000005,1,1")
    write_trace(tmp_path / "once.csv", *(30 * ["7,1,1"]))
    (tmp_path / "empty").mkdir()
    before = contents(tmp_path)
    assert message in cli.refusal(COMMAND, *arguments)
    assert contents(tmp_path) == before


def test_help_shows_examples(cli: Cli) -> None:
    for name in ("describe", "fit", "generate", "check"):
        code, out, _ = cli(COMMAND, name, "--help")
        assert code == 0
        assert f"Example: gatepilot workload {name}" in out
