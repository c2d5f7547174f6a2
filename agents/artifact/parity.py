"""Whether the network in the file decides as the trained one does.

Both compute in float32, in another order, so their logits differ in the sixth digit. Where the two
best logits are closer than that, the argmax is a matter of rounding, and neither answer is wrong.
Such a *tie* is told from a fault by a third computation in double precision: every action of
either policy must be within `TIE_TOLERANCE` of the best there, so that different actions are ties.
They are counted, the count is shown and written into the manifest, and more than `MAX_TIES` are
refused like a fault: a policy that hardly tells its actions apart would not do the same on another
processor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..learned_policy import LearnedPolicy
from .errors import ArtifactError
from .golden import LOGIT_TOLERANCE, GoldenVectors, logit_scale, margins, shortfall
from .layout import POLICY_FILE
from .manifest import Parity
from .network import ActingNetwork
from .runtime import MIN_GOLDEN_VECTORS, ArtifactPolicy
from .vectors import anywhere, edges, impossible, near_real

OBSERVATIONS: Final = 100_000
"""On how many the two are compared."""
MAX_TIES: Final = OBSERVATIONS // 10_000
"""Differences at ties beyond which the policy is refused."""
TIE_TOLERANCE: Final = 1e-5
"""Distance of the two best logits that float32 may turn round, as a share of the largest logit (of
1 if all are smaller): a hundred units in the last place; a layer of 64 units adds up a few tens."""
GOLDEN_VECTORS: Final = 1500
"""As many as there are no near ties among; at least `MIN_GOLDEN_VECTORS`."""
_GOLDEN_MARGIN: Final = 10 * TIE_TOLERANCE
"""Distance from a tie, on the same scale, that makes a vector fit for every processor."""
_CORNERS: Final = 200
_CHUNK: Final = 8192
"""Observations asked at once."""
_SEED: Final = 90_001


class ParityError(ArtifactError):
    """The network in the file decides otherwise than the trained one."""


@dataclass(frozen=True)
class Comparison:
    """What came of a comparison."""

    parity: Parity
    golden: GoldenVectors


def compare(
    trained: LearnedPolicy,
    network: ActingNetwork,
    exported: ArtifactPolicy,
    real: NDArray[np.float32],
) -> Comparison:
    """Asks both policies about 100,000 observations: real ones, near them, edges, anywhere.

    Args:
        trained: The policy as it is evaluated.
        network: Its acting part.
        exported: The network out of the file.
        real: Observations from play, `(n, D)`.

    Raises:
        ParityError: Their actions differ beyond ties, or their logits beyond rounding.
    """
    rng = np.random.default_rng(_SEED)
    spec = exported.manifest.observation_spec
    at_edges = edges(rng, real, spec, _CORNERS)
    near = OBSERVATIONS // 3
    rest = OBSERVATIONS - len(at_edges) - len(real) - near
    observations = np.concatenate(
        [at_edges, real, near_real(rng, real, spec, near), anywhere(rng, spec, rest)]
    )
    answers = [
        _asked(trained, network, exported, chunk)
        for chunk in np.array_split(observations, -(-OBSERVATIONS // _CHUNK))
    ]
    logits, actions, errors, differs = (np.concatenate(part) for part in zip(*answers, strict=True))
    ties = int(differs.sum())
    if ties > MAX_TIES:
        msg = (
            f"{POLICY_FILE}: {ties} of {OBSERVATIONS} actions are ties that rounding decides, at "
            f"most {MAX_TIES} are let through: the policy hardly tells its actions apart"
        )
        raise ParityError(msg)
    distance = margins(logits, exported.manifest.network.layout) / logit_scale(logits)
    others = len(at_edges) + rng.permutation(OBSERVATIONS - len(at_edges))
    order = np.concatenate([np.arange(len(at_edges)), others])
    golden = order[distance[order] > _GOLDEN_MARGIN][:GOLDEN_VECTORS]
    if len(golden) < MIN_GOLDEN_VECTORS:
        msg = (
            f"{POLICY_FILE}: of {OBSERVATIONS} actions {len(golden)} are clear, at least "
            f"{MIN_GOLDEN_VECTORS} are needed: the policy hardly tells its actions apart"
        )
        raise ParityError(msg)
    return Comparison(
        Parity(OBSERVATIONS, ties, float(errors.max())),
        GoldenVectors(observations[golden], logits[golden], actions[golden], impossible(real)),
    )


def _asked(
    trained: LearnedPolicy,
    network: ActingNetwork,
    exported: ArtifactPolicy,
    observations: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """The file's logits, its actions, the logits' errors, and where the trained policy differs.

    Raises:
        ParityError: A logit is wrong, or an action that is not among the best.
    """
    logits, actions = exported.outputs(observations)
    exact = network.exact_logits(observations)
    scale = logit_scale(exact)
    errors = np.abs(logits - exact).max(axis=1)
    if (errors > LOGIT_TOLERANCE * scale).any():
        worst = int((errors / scale).argmax())
        msg = f"{POLICY_FILE}: a logit is off by {errors[worst]:.3g} on {observations[worst]}"
        raise ParityError(msg.replace("\n", ""))
    theirs = trained.act(observations)
    layout = exported.manifest.network.layout
    for kind, chosen in (("trained", theirs), ("exported", actions)):
        wrong = shortfall(exact, chosen, layout) > TIE_TOLERANCE * scale
        if wrong.any():
            first = observations[int(wrong.argmax())]
            msg = f"{POLICY_FILE}: the {kind} policy's action is not the best on {first}"
            raise ParityError(msg.replace("\n", ""))
    differs = (actions != theirs).any(axis=1)
    return logits, actions, errors, differs
