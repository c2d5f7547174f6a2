"""Traces from files: known answers and one-line errors."""

import gzip
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from gatepilot.envs.workload.trace import TraceError, load_trace

HEADER = "arrival_s,prompt_tokens,output_tokens\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def write(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "T.CSV", "T.CSV.GZ", "t.csv.Gz"])
def test_csv(tmp_path: Path, name: str) -> None:
    text = "x,output_tokens,arrival_s,prompt_tokens\na,3,0.5,10\nb,4,0.5,20\n\nc,5.0,7,30\n"
    requests = load_trace(write(tmp_path, text, name))
    assert requests.arrival_s.tolist() == [0.5, 0.5, 7.0]
    assert requests.prompt_tokens.tolist() == [10, 20, 30]
    assert requests.output_tokens.tolist() == [3, 4, 5]
    assert requests.span_s == 8.0


def test_a_trace_may_begin_late(tmp_path: Path) -> None:
    requests = load_trace(write(tmp_path, HEADER + "30000,1,2\n30001,3,4\n"))
    assert requests.arrival_s.tolist() == [30_000.0, 30_001.0]
    assert requests.span_s == 30_002.0


def test_byte_order_mark_and_carriage_returns(tmp_path: Path) -> None:
    text = "\ufeff" + (HEADER + "0,1,2\n1,3,4\n").replace("\n", "\r\n")
    assert load_trace(write(tmp_path, text)).prompt_tokens.tolist() == [1, 3]


@pytest.mark.parametrize("name", ["t.parquet", "T.PARQUET"])
def test_parquet(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    table = {"arrival_s": [0.0, 1.25], "prompt_tokens": [5, 6], "output_tokens": [7, 8]}
    pq.write_table(pa.table({**table, "client": [1, 2]}), path)
    requests = load_trace(path)
    assert requests.arrival_s.tolist() == [0.0, 1.25]
    assert requests.output_tokens.tolist() == [7, 8]
    assert requests.span_s == 2.0


def test_azure_times_become_relative(tmp_path: Path) -> None:
    rows = (
        "2023-11-16 18:17:03.9799600,4808,10\n"
        "2023-11-16 18:17:04.0319600,3180,8\n"
        "2023-11-17 18:17:03.9799600,110,27\n"
    )
    requests = load_trace(write(tmp_path, AZURE + rows))
    assert requests.arrival_s.tolist() == pytest.approx([0.0, 0.052, 86400.0], abs=1e-9)
    assert requests.prompt_tokens.tolist() == [4808, 3180, 110]
    assert requests.output_tokens.tolist() == [10, 8, 27]


def test_azure_times_with_a_zone(tmp_path: Path) -> None:
    rows = "2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:01.009930+00:00,2399,6\n"
    assert load_trace(write(tmp_path, AZURE + rows)).arrival_s.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["empty", "arrival_s"]),
        (HEADER, ["no data rows"]),
        (HEADER + "0,1,1\n", ["one request", "at least two"]),
        ("arrival_s,prompt_tokens\n0,1\n", ["column output_tokens is missing", "found arrival_s"]),
        (AZURE.replace("Gen", "gen") + "2023-11-16 18:17:03,1,1\n", ["column GeneratedTokens"]),
        ("arrival_s," + HEADER + "0,0,1,1\n", ["column arrival_s appears twice"]),
        (HEADER + "0,1,1\n2,1,1\n1,1,1\n", ["row 3, arrival_s", "1 s", "2 s", "sorted"]),
        (HEADER + "-1,1,1\n2,1,1\n", ["row 1, arrival_s", "-1 is negative"]),
        (HEADER + "0,1,1\ninf,1,1\n", ["row 2, arrival_s", "inf is not a finite number"]),
        (HEADER + "0,1,1\nnan,1,1\n", ["row 2, arrival_s", "no value", "number"]),
        (HEADER + "1.7e9,1,1\n1.7e9,1,1\n", ["row 1", "1700000000 s", "is Unix time, subtract"]),
        (HEADER + "0,1,1\n1e9,1,1\n", ["row 2, arrival_s", "more than three years"]),
        (AZURE + "2023-11-16 18:17:03,1,1\n2033-11-16 18:17:03,1,1\n", ["row 2", "three years"]),
        (HEADER + "0,1,1\n1,0,1\n", ["row 2, prompt_tokens", "0 is not a whole number"]),
        (HEADER + "0,1,-4\n1,1,1\n", ["row 1, output_tokens", "-4 is not a whole number"]),
        (HEADER + "0,1,1\n1,1,1.5\n", ["row 2, output_tokens", "1.5 is not a whole number"]),
        (HEADER + "0,1,1\n1,3e9,1\n", ["row 2, prompt_tokens", "3e+09", "1 to 2,147,483,647"]),
        (HEADER + "0,1,1\n1,abc,1\n", ["row 2, prompt_tokens", "'abc' is not a number"]),
        (HEADER + "0,1,1\nx,abc,1\n", ["row 2, arrival_s", "'x' is not a number"]),
        (HEADER + "0,1,1\n1,,1\n", ["row 2, prompt_tokens", "no value"]),
        (HEADER + "0,1,1\n\n1,1\n", ["row 2 has 2 columns", "expected 3"]),
        (HEADER + "0,1,1\n1,1,1,9\n", ["row 2 has 4 columns", "expected 3"]),
        (AZURE + "2023-11-16 18:17:03,1,1\nsoon,1,1\n", ["row 2, TIMESTAMP", "'soon'", "date"]),
        (AZURE + "2023-11-16 18:17:03,1,1\n2023-11-16 18:17:02,1,1\n", ["row 2", "sorted"]),
    ],
)
def test_bad_csv(tmp_path: Path, text: str, parts: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(TraceError, match=r"^[^\n]+$") as caught:
        load_trace(path)
    for part in [str(path), *parts]:
        assert part in str(caught.value)


def test_bad_files(tmp_path: Path) -> None:
    broken_gzip = tmp_path / "b.csv.gz"
    broken_gzip.write_bytes(b"no gzip")
    cut_gzip = tmp_path / "c.csv.gz"
    cut_gzip.write_bytes(gzip.compress((HEADER + "0,1,1\n" * 9).encode())[:-9])
    rows = "".join(f"{i},1,{i % 977 + 1}\n" for i in range(60_000))  # more than a buffer
    long_gzip = tmp_path / "d.csv.gz"
    long_gzip.write_bytes(gzip.compress((HEADER + rows).encode())[:-1000])
    damaged_gzip = tmp_path / "e.csv.gz"  # in the head, and far behind it
    damaged_late = tmp_path / "f.csv.gz"
    for damaged, where in ((damaged_gzip, 20), (damaged_late, 60_000)):
        content = bytearray(gzip.compress((HEADER + rows).encode()))
        content[where : where + 40] = 40 * b"\xff"
        damaged.write_bytes(content)
    long_latin = tmp_path / "m.csv"
    long_latin.write_bytes((HEADER + rows).encode() + b"60000,\xff,1\n")
    latin = tmp_path / "l.csv"
    latin.write_bytes(HEADER.encode() + b"0,1,1\n1,\xff,1\n")
    broken_parquet = tmp_path / "b.parquet"
    broken_parquet.write_bytes(b"no parquet")
    for path, part in [
        (tmp_path / "none.csv", "no such file"),
        (tmp_path / "t.json", ".csv.gz"),
        (broken_gzip, "not a readable csv"),
        (cut_gzip, "not a readable csv"),
        (long_gzip, "not a readable csv"),
        (damaged_gzip, "not a readable csv"),
        (damaged_late, "not a readable csv"),
        (latin, "not a readable csv"),
        (long_latin, "row 60001, prompt_tokens"),
        (broken_parquet, "not a readable parquet"),
    ]:
        with pytest.raises(TraceError, match=r"^[^\n]+$") as caught:
            load_trace(path)
        assert str(path) in str(caught.value)
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"prompt_tokens": None}, ["column prompt_tokens is missing"]),
        ({"prompt_tokens": ["5", "6"]}, ["column prompt_tokens holds string", "numbers"]),
        ({"output_tokens": [7, None]}, ["row 2, output_tokens", "no value"]),
        ({"arrival_s": [3.0, 1.0]}, ["row 2, arrival_s", "sorted"]),
        ({"arrival_s": [0.0, float("nan")]}, ["row 2, arrival_s", "nan"]),
    ],
)
def test_bad_parquet(tmp_path: Path, change: dict[str, object], parts: list[str]) -> None:
    good = {"arrival_s": [0.0, 1.0], "prompt_tokens": [5, 6], "output_tokens": [7, 8]}
    columns = {k: v for k, v in {**good, **change}.items() if v is not None}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(TraceError, match=r"^[^\n]+$") as caught:
        load_trace(tmp_path / "t.parquet")
    for part in parts:
        assert part in str(caught.value)


def test_a_million_rows_do_not_take_long(tmp_path: Path) -> None:
    n = 1_000_000
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "arrival_s": np.sort(rng.uniform(0, 1e5, n)),
            "prompt_tokens": rng.integers(1, 5000, n),
            "output_tokens": rng.integers(1, 5000, n),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    start_s = time.perf_counter()
    assert len(load_trace(tmp_path / "t.parquet")) == n
    assert time.perf_counter() - start_s < 3  # 0.05 s where it was written; a row loop takes 10 s


@pytest.mark.parametrize(
    ("name", "requests", "span_s"),
    [
        ("azure-2023-conv-h1.csv.gz", 9_739, 1751.0),
        ("azure-2023-code.csv.gz", 8_819, 3436.0),
        ("servegen-tenants-24h.parquet", 455_438, 86399.0),
    ],
)
def test_public_traces(traces_dir: Path, name: str, requests: int, span_s: float) -> None:
    trace = load_trace(traces_dir / name)
    assert len(trace) == requests
    assert trace.span_s == span_s


OPTIONAL = HEADER.strip() + ",client,prefix_hit_tokens,prefix_parent\n"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_optional_columns(tmp_path: Path, ending: str) -> None:
    text = OPTIONAL + "0,5,1,web,0,-1\n1,5,1,batch,3,0\n2,5,1,web,5,1\n"
    path = write(tmp_path, text)
    if ending == "parquet":
        table = pa.csv.read_csv(path)
        path = tmp_path / "t.parquet"
        pq.write_table(table, path)
    requests = load_trace(path)
    assert requests.client is not None
    assert requests.client.tolist() == [1, 0, 1]
    assert requests.client_names == ("batch", "web")
    assert requests.prefix_hit_tokens is not None
    assert requests.prefix_hit_tokens.tolist() == [0, 3, 4]  # the last token is computed anew
    assert requests.prefix_parent is not None
    assert requests.prefix_parent.tolist() == [-1, 0, 1]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tenants_that_are_numbers_sort_as_numbers(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path, HEADER.strip() + ",client\n0,5,1,10\n1,5,1,9\n2,5,1,10\n")
    if ending == "parquet":
        table = pa.csv.read_csv(path)
        path = tmp_path / "t.parquet"
        pq.write_table(table, path)
    requests = load_trace(path)
    assert requests.client_names == ("9", "10")
    assert requests.client is not None
    assert requests.client.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        ("0,5,1,a,0,-1\n1,5,1,,0,-1\n", ["row 2, client", "no value", "tenant"]),
        ("0,5,1,a,0,-1\n1,5,1,a,6,0\n", ["prefix_hit_tokens[1]", "6", "from 0"]),
        ("0,5,1,a,0,-1\n1,5,1,a,2,1\n", ["prefix_parent[1]", "1", "earlier"]),
        ("0,5,1,a,0,-1\n1,5,1,a,2.5,0\n", ["row 2, prefix_hit_tokens", "2.5"]),
        ("0,5,1,a,0,-1\n1,5,1,a,x,0\n", ["row 2, prefix_hit_tokens", "'x' is not a number"]),
    ],
)
def test_bad_optional_columns(tmp_path: Path, rows: str, parts: list[str]) -> None:
    path = write(tmp_path, OPTIONAL + rows)
    with pytest.raises(TraceError, match=r"^[^\n]+$") as caught:
        load_trace(path)
    for part in [str(path), *parts]:
        assert part in str(caught.value)


def test_a_prefix_column_does_not_stand_alone(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER.strip() + ",prefix_hit_tokens\n0,5,1,0\n1,5,1,3\n")
    with pytest.raises(TraceError, match="prefix_hit_tokens stands alone"):
        load_trace(path)


def test_public_prefix_columns(traces_dir: Path) -> None:
    """What the folder's README says of prefix reuse: an upper bound, and who brought it last."""
    trace = load_trace(traces_dir / "mooncake-conversation-h1.csv.gz")
    assert trace.prefix_hit_tokens is not None
    assert trace.prefix_parent is not None
    assert trace.prefix_hit_tokens[:4].tolist() == [0, 512, 512, 512]
    assert trace.prefix_parent[:4].tolist() == [-1, 0, 1, 2]
    assert (trace.prefix_hit_tokens < trace.prompt_tokens).all()
    reused = trace.prefix_hit_tokens.sum() / trace.prompt_tokens.sum()
    assert reused == pytest.approx(0.347, abs=0.001)


def test_public_tenants(traces_dir: Path) -> None:
    trace = load_trace(traces_dir / "servegen-tenants-24h.parquet")
    assert len(trace.client_names) == 12
    assert trace.client is not None
    assert np.bincount(trace.client).min() == 18_789
