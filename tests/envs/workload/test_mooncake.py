"""The Mooncake format: fields, block hashes, and one-line errors."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gatepilot.envs.workload.trace import TraceError, load_trace


def line(time_ms: float, prompt: int, output: int = 7, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"timestamp": time_ms, "input_length": prompt, "output_length": output, **more}


def write(folder: Path, *lines: dict[str, Any] | str, name: str = "t.jsonl") -> Path:
    path = folder / name
    texts = [each if isinstance(each, str) else json.dumps(each) for each in lines]
    data = ("\n".join(texts) + "\n").encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_fields_and_blocks(tmp_path: Path, name: str) -> None:
    path = write(
        tmp_path,
        line(0, 1200, hash_ids=[0, 1, 2]),
        line(0, 600, hash_ids=[0, 3]),
        "",
        line(3000, 1300, hash_ids=[0, 1, 4]),
        line(3000.5, 1200, hash_ids=[0, 1, 2]),
        line(9000, 20, hash_ids=[9]),
        name=name,
    )
    requests = load_trace(path)
    assert requests.arrival_s.tolist() == [0.0, 0.0, 3.0, 3.0005, 9.0]
    assert requests.prompt_tokens.tolist() == [1200, 600, 1300, 1200, 20]
    assert requests.output_tokens.tolist() == [7] * 5
    assert requests.span_s == 10.0
    assert requests.prefix_hit_tokens is not None
    assert requests.prefix_parent is not None
    # 0: nobody yet; 1: one block of 0; 2: two of 0; 3: all of 0 but the last token; 4: nothing
    assert requests.prefix_hit_tokens.tolist() == [0, 512, 1024, 1199, 0]
    assert requests.prefix_parent.tolist() == [-1, 0, 0, 0, -1]


def test_unix_time_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, line(1_700_000_000_000, 5), line(1_700_000_001_000, 5))
    with pytest.raises(TraceError, match="row 1, timestamp: 1700000000 s is more than three years"):
        load_trace(path)


def test_a_deep_line_and_a_huge_number(tmp_path: Path) -> None:
    for text, part in [
        (100_000 * "[", "not a JSON object"),
        (json.dumps(line(10**400, 5)), "is not a number of milliseconds"),
        (json.dumps(line(0, 99_999_999_999)), "is not a whole number from 1 to 2,147,483,647"),
    ]:
        with pytest.raises(TraceError, match=r"^[^\n]+$") as caught:
            load_trace(write(tmp_path, line(0, 5), text))
        assert "line 2" in str(caught.value)
        assert part in str(caught.value)


def test_damaged_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, *(line(i, i % 977 + 1) for i in range(9000)), name="t.jsonl.gz")
    content = bytearray(path.read_bytes())
    for where in (20, 20_000):
        content[where : where + 20] = 20 * b"\xff"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"not a readable jsonl file \(Error -3"):
        load_trace(path)


def test_the_parent_is_the_latest_holder(tmp_path: Path) -> None:
    same = [line(i, 1000, hash_ids=[0, 1 + i]) for i in range(4)]
    requests = load_trace(write(tmp_path, *same))
    assert requests.prefix_parent is not None
    assert requests.prefix_parent.tolist() == [-1, 0, 1, 2]


def test_without_blocks_nothing_is_known_of_reuse(tmp_path: Path) -> None:
    requests = load_trace(write(tmp_path, line(0, 5), line(1500, 6)))
    assert requests.prefix_hit_tokens is None
    assert requests.arrival_s.tolist() == [0.0, 1.5]


@pytest.mark.parametrize(
    ("lines", "parts"),
    [
        (["{"], ["line 1", "not a JSON object"]),
        (["[1]"], ["line 1", "expected a JSON object"]),
        ([line(0, 1), {"timestamp": 1, "input_length": 2}], ["line 2", "output_length is missing"]),
        ([line(0, 1), line(1, 0)], ["line 2", "input_length: 0"]),
        ([line(0, 1), line(1, 1, 2**31)], ["line 2", "output_length: 2147483648"]),
        ([line(0, 1), line(1, 1, True)], ["line 2", "output_length: True"]),
        ([line(0, 1), line(1, 1, 1.5)], ["line 2", "output_length: 1.5"]),  # type: ignore[arg-type]
        ([line(0, 1), {**line(1, 1), "timestamp": "1"}], ["line 2", "timestamp: '1'"]),
        ([line(5, 1), line(3, 1)], ["row 2, timestamp", "sorted"]),
        ([line(0, 1, hash_ids=[1]), line(1, 1)], ["only 1 of 2 lines have hash_ids"]),
        ([line(0, 1, hash_ids="x"), line(1, 1)], ["line 1", "hash_ids: expected a list"]),
        ([line(0, 512, hash_ids=[1, 2])], ["line 1", "2 blocks of 512 tokens", "512"]),
        ([line(0, 1)], ["one request", "at least two"]),
        ([""], ["no data rows"]),
    ],
)
def test_bad_lines(tmp_path: Path, lines: list[Any], parts: list[str]) -> None:
    path = write(tmp_path, *lines)
    with pytest.raises(TraceError, match=r"^[^\n]+$") as caught:
        load_trace(path)
    for part in [str(path), *parts]:
        assert part in str(caught.value)


def test_a_broken_archive(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(b"no gzip")
    with pytest.raises(TraceError, match="not a readable jsonl file"):
        load_trace(path)
