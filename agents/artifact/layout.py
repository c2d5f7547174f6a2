"""The fixed parts of the format: names of files and tensors, their shapes, the action table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict

from ...envs.schema.action import ACTION_DIMS, DISCRETE_ACTIONS, STEPS

FORMAT: Final = "gatepilot-artifact/2"
"""Version of the layout: another one is refused."""
MANIFEST_FILE: Final = "manifest.json"
POLICY_FILE: Final = "policy.onnx"
GOLDEN_FILE: Final = "golden.npz"
SIGNATURE_FILE: Final = "model.sig"
SEALED_FILES: Final = (POLICY_FILE, GOLDEN_FILE)
"""Files whose SHA-256 stands in the manifest."""
SIGNED_FILES: Final = (*SEALED_FILES, MANIFEST_FILE)
"""Files that the signature covers: all but itself."""

INPUT: Final = "observation"
LOGITS: Final = "logits"
ACTION: Final = "action"
BATCH: Final = "batch"
"""Name of the axis whose length is free."""
QUANTILE_LEVELS: Final = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
"""Of every observation entry in training."""
Layout = Literal["heads", "table"]
"""How logits become an action: two heads of three logits each, or a table of nine values."""
STRICT: Final = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
"""How content of the format is read: no unknown key, no conversion, no NaN."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of the network."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    name: str
    dtype: Literal["float32", "int64"]
    shape: tuple[int | str, ...]
    """Lengths; a name where the length is free."""


def expected_tensors(layout: Layout, entries: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Inputs and outputs that a policy must have.

    Args:
        layout: How logits become an action.
        entries: Observation entries.
    """
    inputs = (Tensor(INPUT, "float32", (BATCH, entries)),)
    if layout == "heads":
        logits, action = sum(ACTION_DIMS), (BATCH, len(ACTION_DIMS))
        return inputs, (Tensor(LOGITS, "float32", (BATCH, logits)), Tensor(ACTION, "int64", action))
    return inputs, (
        Tensor(LOGITS, "float32", (BATCH, DISCRETE_ACTIONS)),
        Tensor(ACTION, "int64", (BATCH,)),
    )


def action_table() -> tuple[tuple[int, int], ...]:
    """The nine actions as steps, in the order of the table."""
    return tuple((scale, threshold) for scale in STEPS for threshold in STEPS)
