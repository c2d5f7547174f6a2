"""How long one iteration of an engine lasts, and the mean time a token that follows from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepModel:
    """Duration of an iteration with B decoding sequences, S context tokens, p prefill tokens.

    `base + per_seq * B + per_ctx_token * S + per_prefill_token * p + experts * a(B + p)` seconds.
    A token activates the share s of the experts, n tokens the share `a(n) = 1 - (1 - s)^n` of them
    if they choose independently; the weights of those are read once an iteration.
    """

    base_s: float
    per_seq_s: float
    per_ctx_token_s: float
    per_prefill_token_s: float
    experts_s: float = 0.0
    """Time to read all experts; 0: a dense model."""
    expert_share: float = 0.0
    """s: share (0-1) of the experts that one token activates, e.g. 4 of 128."""

    @property
    def coefficients(self) -> Floats:
        """The times in the order of the columns of `closed_loop_columns`."""
        times = [self.base_s, self.per_seq_s, self.per_ctx_token_s, self.per_prefill_token_s]
        return np.array(times if self.expert_share == 0 else [*times, self.experts_s])

    @classmethod
    def of_coefficients(cls, times: Floats, expert_share: float) -> StepModel:
        """The model with these times, see `coefficients`."""
        base, per_seq, per_ctx, per_prefill, *experts = times.tolist()
        return cls(base, per_seq, per_ctx, per_prefill, sum(experts), expert_share)

    def tpot_s(
        self, concurrency: ArrayLike, prompt_tokens: ArrayLike, output_tokens: ArrayLike
    ) -> Floats:
        """Mean time a token in a closed loop that runs evenly.

        Args:
            concurrency: Requests in flight, all of them decoding nearly all the time.
            prompt_tokens: Mean prompt.
            output_tokens: Mean answer.

        Returns:
            Seconds, of the arguments' common shape; see `closed_loop_columns` for what is left out.
        """
        columns = closed_loop_columns(concurrency, prompt_tokens, output_tokens, self.expert_share)
        tpot_s: Floats = columns @ self.coefficients
        return tpot_s


def closed_loop_columns(
    concurrency: ArrayLike,
    prompt_tokens: ArrayLike,
    output_tokens: ArrayLike,
    expert_share: float,
) -> Floats:
    """What the coefficients are multiplied with in the closed-loop identity.

    With C requests in flight, prompts of P and answers of O tokens, an iteration holds C decoding
    sequences with `P + O / 2` tokens of context each; every O iterations each of the C prefills P
    tokens, `C P / O` an iteration. So TPOT is
    `base + per_seq C + per_ctx C (P + O / 2) + per_prefill C P / O (+ experts a(C))`: the identity
    of the published fits (`step_model` in profiles.json of the trace folder). It takes a request
    that waits or prefills for one that decodes, so it is a little high for the same coefficients.

    Returns:
        `(..., 4)`, with experts `(..., 5)`.
    """
    c, p, o = (
        np.asarray(value, np.float64) for value in (concurrency, prompt_tokens, output_tokens)
    )
    c, p, o = np.broadcast_arrays(c, p, o)
    columns = [np.ones(c.shape), c, c * (p + o / 2), c * p / o]
    if expert_share > 0:
        columns.append(-np.expm1(np.log1p(-expert_share) * c))
    return np.stack(columns, axis=-1)
