"""Golden vectors: observations with the action each must lead to, and ones that must be refused."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...envs.schema.action import ACTION_DIMS, from_discrete, to_discrete
from .errors import ArtifactError
from .folder import MAX_FILE_BYTES
from .layout import GOLDEN_FILE, Layout

LOGIT_TOLERANCE: Final = 1e-4
"""How far a logit may be off, as a share of the largest of its observation (of 1 if all are
smaller): other processors add in another order, which in float32 moves the sixth digit."""
_ARRAYS: Final = ("observations", "logits", "actions", "refused")


@dataclass(frozen=True)
class GoldenVectors:
    """What a loaded policy must reproduce."""

    observations: NDArray[np.float32]
    """`(n, D)`, finite. None of them is a near tie, so that every processor finds these actions."""
    logits: NDArray[np.float32]
    """`(n, 6)` or `(n, 9)`."""
    actions: NDArray[np.int64]
    """`(n, 2)`: head indices."""
    refused: NDArray[np.float32]
    """`(m, D)`, each with NaN or an infinity somewhere: must not become an action."""

    def to_bytes(self) -> bytes:
        """The content of `golden.npz`; the same vectors give the same bytes."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **{name: getattr(self, name) for name in _ARRAYS})
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, *, entries: int, logits: int) -> GoldenVectors:
        """Reads `golden.npz`; nothing in it is executed.

        Args:
            content: The file's bytes.
            entries: Observation entries of the contract.
            logits: Logits of the layout.

        Raises:
            ArtifactError: It is malformed, or its arrays do not fit.
        """
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                if sum(info.file_size for info in archive.infolist()) > MAX_FILE_BYTES:
                    msg = f"{GOLDEN_FILE}: unpacks to more than {MAX_FILE_BYTES} bytes"
                    raise ArtifactError(msg)
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                found = {name: np.asarray(arrays[name]) for name in arrays.files}
        except ArtifactError:
            raise
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            msg = f"{GOLDEN_FILE}: not readable as arrays of numbers"
            raise ArtifactError(msg) from error
        if found.keys() != set(_ARRAYS):
            msg = f"{GOLDEN_FILE}: holds {sorted(found)}, expected {sorted(_ARRAYS)}"
            raise ArtifactError(msg)
        count = len(np.atleast_1d(found["observations"]))
        expected = {
            "observations": (np.float32, (count, entries)),
            "logits": (np.float32, (count, logits)),
            "actions": (np.int64, (count, len(ACTION_DIMS))),
            "refused": (np.float32, (len(np.atleast_1d(found["refused"])), entries)),
        }
        for name, (dtype, shape) in expected.items():
            array = found[name]
            if array.dtype != dtype or array.shape != shape:
                msg = (
                    f"{GOLDEN_FILE}: {name} is {array.dtype} {array.shape}, "
                    f"expected {np.dtype(dtype)} {shape}"
                )
                raise ArtifactError(msg)
        return cls(**found)


def logit_scale(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """The size that rounding is measured by, `(n, K)` to `(n,)`: the largest logit, at least 1."""
    largest: NDArray[np.float64] = np.abs(logits.astype(np.float64)).max(axis=1)
    return np.maximum(largest, 1.0)


def margins(logits: NDArray[np.floating], layout: Layout) -> NDArray[np.float64]:
    """Distance from a tie: best less second-best, the smaller of both heads; `(n, K)` to `(n,)`."""
    groups = _groups(logits.astype(np.float64), layout)
    best = np.sort(groups, axis=-1)
    return np.asarray((best[..., -1] - best[..., -2]).min(axis=1))


def chosen(logits: NDArray[np.floating], layout: Layout) -> NDArray[np.int64]:
    """The action that logits mean: `(n, K)` to head indices `(n, 2)`; the first of equal ones."""
    best = _groups(logits, layout).argmax(axis=-1)
    return best.astype(np.int64) if layout == "heads" else from_discrete(best[:, 0])


def shortfall(
    logits: NDArray[np.floating], actions: NDArray[np.int64], layout: Layout
) -> NDArray[np.float64]:
    """How far below the best the logits of given actions are, `(n,)`: 0 for the best action."""
    groups = _groups(logits.astype(np.float64), layout)
    indices = actions if layout == "heads" else to_discrete(actions)[:, np.newaxis]
    taken = np.take_along_axis(groups, indices[..., np.newaxis], axis=-1)[..., 0]
    worst: NDArray[np.float64] = (groups.max(axis=-1) - taken).max(axis=1)
    return worst


def _groups(logits: NDArray[np.floating], layout: Layout) -> NDArray[np.floating]:
    """Logits by what an argmax goes over: `(n, 2, 3)` or `(n, 1, 9)`."""
    count = len(ACTION_DIMS) if layout == "heads" else 1
    return logits.reshape(len(logits), count, -1)
