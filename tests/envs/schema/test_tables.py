import pytest

from gatepilot.envs.schema.advice import ADVICE_ENTRIES
from gatepilot.envs.schema.fields import FIELDS
from gatepilot.envs.schema.observation import ObservationSpec
from gatepilot.envs.schema.tables import (
    actions_table,
    advice_table,
    fields_table,
    observation_table,
)


def cells(table: str) -> list[list[str]]:
    """Head and body, without the rule; every line has as many cells as the head."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert len({len(line) for line in lines}) == 1
    assert set(lines[1]) == {"---"}
    return [lines[0], *lines[2:]]


def test_every_field_is_in_the_table_once_and_in_order() -> None:
    head, *body = cells(fields_table())
    assert [row[0] for row in body] == [f"`{field.name}`" for field in FIELDS]
    for row, field in zip(body, FIELDS, strict=True):
        told = dict(zip(head, row, strict=True))
        assert told["unit"] == field.unit
        assert told["range"] == f"{field.low:g} to {field.high:g}"
        assert told["can be missing"] == ("yes" if field.nullable else "no")
        assert told["meaning"] == field.meaning
        assert told["live source"] == field.live_source
        assert told["scale"].startswith(field.scale)


@pytest.mark.parametrize(
    "spec",
    [
        ObservationSpec("documented"),
        ObservationSpec("extended"),
        ObservationSpec("extended", 2),
        ObservationSpec("advised", 2),
    ],
    ids=str,
)
def test_every_entry_is_in_the_table_with_bounds_and_meaning(spec: ObservationSpec) -> None:
    _, *body = cells(observation_table(spec))
    assert [row[1] for row in body] == [f"`{entry}`" for entry in spec.entries]
    assert [row[0] for row in body] == [str(i) for i in range(len(spec.entries))]
    for row, low, high in zip(body, spec.low, spec.high, strict=True):
        assert row[2] == f"{low:g} to {high:g}"
        assert row[3]


def test_entries_say_what_they_are() -> None:
    _, *body = cells(observation_table(ObservationSpec("extended", 2)))
    meaning = {row[1].strip("`"): row[3] for row in body}
    assert meaning["ttft_p95_s"] == "P95 of time to first token at the gateway"
    assert meaning["ttft_p95_s[-1]"] == "P95 of time to first token at the gateway, at t-1"
    assert meaning["kv_usage_known[-1]"] == "1 if `kv_usage` is known, else 0, at t-1"
    assert meaning["ttft_p95_s_change"].startswith("change of scaled `ttft_p95_s` in 3 ticks")
    assert meaning["ticks_since_change"].startswith("ticks since")
    _, *body = cells(observation_table(ObservationSpec("advised", 2)))
    meaning |= {row[1].strip("`"): row[3] for row in body}
    assert meaning["replicas_gap"] == "replicas wanted less those asked for"
    assert meaning["work_peak_known"] == "1 if `work_peak` is known, else 0"


def test_every_entry_of_the_advice_is_in_the_table_once_and_in_order() -> None:
    head, *body = cells(advice_table())
    assert [row[0] for row in body] == [f"`{entry.name}`" for entry in ADVICE_ENTRIES]
    for row, entry in zip(body, ADVICE_ENTRIES, strict=True):
        told = dict(zip(head, row, strict=True))
        assert told["range"] == f"{-entry.high if entry.is_signed else 0:g} to {entry.high:g}"
        assert told["can be unknown"] == ("yes" if entry.nullable else "no")
        assert told["meaning"] == entry.meaning
        assert told["scale"].startswith(entry.scale)


def test_the_actions_are_the_table_of_nine() -> None:
    _, *body = cells(actions_table())
    assert body == [
        ["0", "0", "0", "-1", "-0.05"],
        ["1", "0", "1", "-1", "no change"],
        ["2", "0", "2", "-1", "+0.05"],
        ["3", "1", "0", "no change", "-0.05"],
        ["4", "1", "1", "no change", "no change"],
        ["5", "1", "2", "no change", "+0.05"],
        ["6", "2", "0", "+1", "-0.05"],
        ["7", "2", "1", "+1", "no change"],
        ["8", "2", "2", "+1", "+0.05"],
    ]
