"""Files of measured rows: what is read, and one-line errors."""

import math
from pathlib import Path

import pytest

from gatepilot.envs.profiles.fit import MeasuredRow
from gatepilot.envs.profiles.measured_rows import load_rows


def test_a_file_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        "output_tokens,prompt_tokens,concurrency,tpot_s,ttft_s,who\n"
        "128,1024,8,0.0123,0.4,me\n"
        "256.0,2048,16,0.02,,you\n"
    )
    first, second = load_rows(path)
    assert first == MeasuredRow(8, 1024, 128, 0.0123, 0.4)
    assert (second.concurrency, second.output_tokens) == (16, 256)
    assert math.isnan(second.ttft_s)


def test_a_byte_order_mark_spaces_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(
        b"\xef\xbb\xbfconcurrency, prompt_tokens ,output_tokens, tpot_s\r\n"
        b'8, 1024 , "128", 0.0123\r\n\r\n , ,,\r\n'
    )
    (row,) = load_rows(path)
    assert (row.concurrency, row.prompt_tokens, row.output_tokens) == (8, 1024, 128)
    assert row.tpot_s == 0.0123


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("concurrency,prompt_tokens,output_tokens\n", "no column tpot_s; expected concurrency,"),
        ("", "no column concurrency"),
        (
            "concurrency,prompt_tokens,output_tokens,tpot_s\n8,0,2,1\n",
            "line 2: prompt_tokens: '0' is not a number above 0",
        ),
        (
            "concurrency,prompt_tokens,output_tokens,tpot_s\n8.5,1,2,1\n",
            "line 2: concurrency: 8.5 is not a whole number",
        ),
        (
            "concurrency,prompt_tokens,output_tokens,tpot_s\n8,1,2,fast\n",
            "line 2: tpot_s: 'fast' is not a number above 0",
        ),
        (
            "concurrency,prompt_tokens,output_tokens,tpot_s\n8,1,1\n",
            "line 2: 3 values for 4 columns",
        ),
        (
            "concurrency,prompt_tokens,output_tokens,tpot_s,ttft_s\n8,1,2,1,nan\n",
            "line 2: ttft_s: 'nan' is not a number above 0",
        ),
        (
            "concurrency,prompt_tokens,output_tokens,tpot_s\n\n8,1,2,1,9\n",
            "line 3: 5 values for 4 columns",
        ),
        (
            "concurrency,prompt_tokens,output_tokens,tpot_s\n8,1024,256,17.4\n",
            "line 2: tpot_s: 17.4 is not from 1e-06 to 10; times are in seconds, is it in milli",
        ),
        (
            "concurrency,prompt_tokens,output_tokens,tpot_s,ttft_s\n8,1024,256,0.02,4000\n",
            "line 2: ttft_s: 4000 is not from 1e-06 to 3,600; times are in seconds",
        ),
        (
            "concurrency,prompt_tokens,output_tokens,tpot_s\n8,1024,1,0.02\n",
            "line 2: output_tokens: 1 is not from 2 to 10,000,000; with one token there is no",
        ),
        (
            "concurrency,prompt_tokens,output_tokens,tpot_s\n1e9,1024,2,0.02\n",
            "line 2: concurrency: 1e9 is not from 1 to 100,000",
        ),
        (
            "concurrency,tpot_s,prompt_tokens,output_tokens,tpot_s\n8,0.1,1024,2,0.02\n",
            "column tpot_s appears twice",
        ),
        pytest.param(
            "concurrency,prompt_tokens,output_tokens,tpot_s\n8,1024,2," + 200_000 * "1" + "\n",
            "line 2: not a line of a CSV file",
            id="a cell that is too long",
        ),
    ],
)
def test_bad_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        load_rows(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        load_rows(tmp_path / "none.csv")
