"""Claims and sections refuse to contradict themselves, and survive being stored."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from gatepilot.experiments.validation.claim import (
    Claim,
    NoProgress,
    Section,
    ValidationContext,
    skipped_section,
)
from gatepilot.experiments.validation.record import claims_of, is_met, section_dict
from gatepilot.experiments.validation.sections import SECTIONS, run_section
from gatepilot.experiments.validation.tables import (
    figure_text,
    interval_text,
    missed_line,
    summary_line,
    tabulated,
)


def claim(subject: str = "M/M/1", quantity: str = "load 0.5", **changes: Any) -> Claim:  # noqa: ANN401
    values: dict[str, Any] = {"measured": 0.01, "bar": 0.02, "unit": "fraction", "passed": True}
    return Claim(subject, quantity, **(values | changes))


def test_a_verdict_needs_a_bar_and_a_figure() -> None:
    for changes in ({"bar": None}, {"passed": None}, {"measured": math.nan}):
        with pytest.raises(ValueError, match=r"M/M/1, load 0\.5"):
            claim(**changes)
    assert claim(measured=math.nan, passed=False).passed is False
    assert claim(bar=None, passed=None).passed is None


def test_a_section_has_claims_or_a_reason() -> None:
    with pytest.raises(ValueError, match="section s: 0 claims"):
        Section("s", "S", "", ())
    with pytest.raises(ValueError, match="skipped: why"):
        Section("s", "S", "", (claim(),), skipped="why")
    with pytest.raises(ValueError, match=r"M/M/1, load 0\.5 is claimed twice"):
        Section("s", "S", "", (claim(), claim()))
    assert skipped_section("s", "S", "intro", "why").claims == ()


def test_met_only_if_something_was_compared_and_nothing_missed() -> None:
    good = Section("s", "S", "", (claim(),))
    bad = Section("t", "T", "", (claim(), claim(quantity="load 0.7", passed=False)))
    none = skipped_section("u", "U", "", "no data")
    assert is_met([good])
    assert is_met([good, none])
    assert not is_met([good, bad])
    assert not is_met([none])
    assert not is_met([])
    assert [c.quantity for c in bad.missed] == ["load 0.7"]


def test_claims_survive_json() -> None:
    claims = (
        claim(interval=(-0.01, 0.03), note="why"),
        claim(quantity="worst", bar=None, passed=None, unit="s"),
        claim(quantity="none", measured=math.nan, passed=False),
    )
    stored = json.loads(json.dumps(section_dict(Section("s", "S", "", claims)), allow_nan=False))
    found = claims_of(stored)
    assert found[:2] == claims[:2]
    assert math.isnan(found[2].measured)


def test_a_table_has_a_row_a_subject_and_a_column_a_quantity() -> None:
    first, second = claim(), claim(quantity="load 0.7", bar=0.05)
    third = claim("M/D/1", "load 0.7", bar=None, passed=None)
    table = tabulated((first, second, third))
    assert table.columns == ("load 0.5", "load 0.7")
    assert [row.subject for row in table.rows] == ["M/M/1", "M/D/1"]
    assert table.rows[0].cells == (first, second)
    assert table.rows[1].cells == (None, third)
    assert [row.bars for row in table.rows] == ["2.00 % / 5.00 %", "none"]


def test_figures_in_words() -> None:
    assert figure_text(-0.0123, "fraction") == "-1.23 %"
    assert figure_text(-1e-9, "fraction") == "0.00 %"
    assert figure_text(5.01e-7, "s") == "5.01e-07 s"
    assert figure_text(12345, "count") == "12,345"
    assert figure_text(math.nan, "fraction") == "none"
    shown = claim(measured=0.031, passed=False, interval=(0.02, 0.042), note="formula 1")
    assert interval_text(shown) == "2.00 to 4.20"
    assert interval_text(claim()) == ""
    assert missed_line(shown) == ("M/M/1, load 0.5: 3.10 % (2.00 to 4.20), bar 2.00 %; formula 1")
    assert summary_line((claim(), shown), None) == "1 of 2 bars met"
    assert summary_line((), "no data") == "skipped: no data"


def test_every_section_of_the_list_is_there() -> None:
    """Run without data and with nothing drawn wherever a section allows it."""
    assert list(SECTIONS)[:2] == ["reference", "queueing"]
    found = run_section("reference", ValidationContext(traces=None, reference=None))
    assert found.name == "reference"
    NoProgress().start("what", 3)(1)
