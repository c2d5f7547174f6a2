"""The identity of the contract: stable where nothing changed, new where anything did."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from gatepilot.envs.schema import fingerprint as module
from gatepilot.envs.schema.advice import ADVICE_ENTRIES, AdviceEntry
from gatepilot.envs.schema.fields import FIELDS, Field
from gatepilot.envs.schema.fingerprint import Contract
from gatepilot.envs.schema.observation import ObservationSpec, Preset

CONTRACT = Contract(ObservationSpec("documented"))
ADVISOR = {"name": "x", "version": 1, "params": {"reserve": 0.2}}
ADVISED = Contract(ObservationSpec("advised"), advisor=ADVISOR)

# Changes only together with the contract itself: every trained policy is then refused.
PINNED: dict[Preset, str] = {
    "documented": "16d43c82007d0007b9f463a770798ff1dc5642b33796949d92e8298bd70d73f1",
    "extended": "03882357382b3756271badace534e8cbe3ac1e21e1b98106808a0be4f39b6061",
    "advised": "a2a93299bd7991adc99c27a00b7c2ca41fda2018aab46896fdef5ddab2ab5eef",
}


@pytest.mark.parametrize("preset", PINNED)
def test_the_fingerprint_is_the_pinned_one(preset: Preset) -> None:
    advisor = ADVISOR if preset == "advised" else None
    assert Contract(ObservationSpec(preset), advisor=advisor).fingerprint == PINNED[preset]


def test_equal_contracts_have_equal_fingerprints_whatever_type_their_numbers_have() -> None:
    assert replace(CONTRACT, control_interval_s=15, window_s=60).fingerprint == CONTRACT.fingerprint


@pytest.mark.parametrize(
    "changed",
    [
        replace(CONTRACT, observation=ObservationSpec("extended")),
        replace(CONTRACT, observation=ObservationSpec("documented", 4)),
        replace(CONTRACT, control_interval_s=5.0),
        replace(CONTRACT, window_s=30.0),
        replace(CONTRACT, minimum_samples=10),
    ],
    ids=["preset", "frame_stack", "control_interval_s", "window_s", "minimum_samples"],
)
def test_every_part_of_the_contract_changes_it(changed: Contract) -> None:
    assert changed.fingerprint != CONTRACT.fingerprint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACTION_DIMS", (3, 5)),
        ("STEPS", (0, -1, 1)),
        ("THRESHOLD_STEP", 0.1),
        ("MIN_THRESHOLD_STEPS", 2),
        ("MAX_THRESHOLD_STEPS", 18),
        ("TREND_TICKS", 4),
        ("CHANGE_HORIZON_TICKS", 20),
    ],
)
def test_every_constant_of_the_encoding_changes_it(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, value)
    assert CONTRACT.fingerprint != PINNED["documented"]


FIELD_CHANGES: dict[str, Callable[[Field], Any]] = {
    "name": lambda field: field.name + "_2",
    "unit": lambda _: "weeks",
    "low": lambda field: field.low - 1,
    "high": lambda field: field.high + 1,
    "scale": lambda field: "log" if field.scale == "linear" else "linear",
    "pivot": lambda field: field.pivot * 2,
    "nullable": lambda field: not field.nullable,
}


def test_every_attribute_of_a_field_is_known_to_matter_or_not() -> None:
    assert {f.name for f in fields(Field)} - set(FIELD_CHANGES) == {"meaning", "live_source"}


@pytest.mark.parametrize("index", range(len(FIELDS)))
@pytest.mark.parametrize("attribute", FIELD_CHANGES)
def test_every_attribute_of_every_field_changes_it(
    index: int, attribute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    field = FIELDS[index]
    changed = replace(field, **{attribute: FIELD_CHANGES[attribute](field)})
    monkeypatch.setattr(module, "FIELDS", (*FIELDS[:index], changed, *FIELDS[index + 1 :]))
    assert CONTRACT.fingerprint != PINNED["documented"]


@pytest.mark.parametrize("attribute", ["meaning", "live_source"])
def test_wording_does_not_change_it(attribute: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other: dict[str, Any] = {attribute: "other words"}
    reworded = tuple(replace(field, **other) for field in FIELDS)
    monkeypatch.setattr(module, "FIELDS", reworded)
    assert CONTRACT.fingerprint == PINNED["documented"]


def test_the_order_of_fields_and_their_number_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for other in (FIELDS[::-1], FIELDS[:-1]):
        monkeypatch.setattr(module, "FIELDS", other)
        assert CONTRACT.fingerprint != PINNED["documented"]


# --- advice -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "advisor",
    [
        ADVISOR | {"name": "y"},
        ADVISOR | {"version": 2},
        ADVISOR | {"params": {"reserve": 0.3}},
        ADVISOR | {"params": {}},
    ],
)
def test_another_advisor_is_another_contract(advisor: dict[str, Any]) -> None:
    assert replace(ADVISED, advisor=advisor).fingerprint != ADVISED.fingerprint


ENTRY_CHANGES: dict[str, Callable[[AdviceEntry], Any]] = {
    "name": lambda entry: entry.name + "_2",
    "unit": lambda _: "weeks",
    "high": lambda entry: entry.high + 1,
    "scale": lambda entry: "log" if entry.scale == "linear" else "linear",
    "pivot": lambda entry: entry.pivot * 2,
    "is_signed": lambda entry: not entry.is_signed,
    "nullable": lambda entry: not entry.nullable,
}


def test_every_attribute_of_an_advice_entry_is_known_to_matter_or_not() -> None:
    assert {f.name for f in fields(AdviceEntry)} - set(ENTRY_CHANGES) == {"meaning"}


@pytest.mark.parametrize("index", range(len(ADVICE_ENTRIES)))
@pytest.mark.parametrize("attribute", [*ENTRY_CHANGES, "meaning"])
def test_every_attribute_of_every_advice_entry_changes_it_but_its_wording(
    index: int, attribute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = ADVICE_ENTRIES[index]
    other: dict[str, Any] = {attribute: "other words"}
    if attribute in ENTRY_CHANGES:
        other = {attribute: ENTRY_CHANGES[attribute](entry)}
    changed = replace(entry, **other)
    entries = (*ADVICE_ENTRIES[:index], changed, *ADVICE_ENTRIES[index + 1 :])
    monkeypatch.setattr(module, "ADVICE_ENTRIES", entries)
    assert (ADVISED.fingerprint == PINNED["advised"]) == (attribute == "meaning")
    assert CONTRACT.fingerprint == PINNED["documented"]


def test_an_advisor_belongs_to_the_observation_that_shows_advice() -> None:
    with pytest.raises(ValueError, match="'advised' was given none"):
        Contract(ObservationSpec("advised"))
    with pytest.raises(ValueError, match="'extended' was given one"):
        Contract(ObservationSpec("extended"), advisor=ADVISOR)
