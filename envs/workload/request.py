"""Requests as arrays, and the ways to cut, filter and multiply them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_TOKENS = 2**31 - 1
"""Largest token count that fits the int32 arrays."""


@dataclass(frozen=True, eq=False)
class Requests:
    """A range of offered load: one entry a request, sorted by arrival.

    Raises:
        ValueError: An array is malformed; the message names the index (0-based) and the value.
    """

    arrival_s: NDArray[np.float64]
    """Seconds from the start of the range, sorted, within [0, span_s]."""
    prompt_tokens: NDArray[np.int32]
    """Prompt length, at least 1."""
    output_tokens: NDArray[np.int32]
    """Output length, at least 1."""
    span_s: float
    """Length of the time range the arrays stand for (not merely the last arrival)."""

    def __post_init__(self) -> None:
        """Brings the arrays to their types and checks them."""
        arrival_s = np.ascontiguousarray(self.arrival_s, dtype=np.float64)
        if arrival_s.ndim != 1:
            raise ValueError(f"arrival_s: one dimension expected, got shape {arrival_s.shape}")
        object.__setattr__(self, "arrival_s", arrival_s)
        for name in ("prompt_tokens", "output_tokens"):
            tokens = _token_array(name, getattr(self, name))
            if tokens.shape != arrival_s.shape:
                raise ValueError(
                    f"{name}: {tokens.size} values for {arrival_s.size} arrivals; "
                    "the arrays must be equally long"
                )
            object.__setattr__(self, name, tokens)
        if not (np.isfinite(self.span_s) and self.span_s > 0):
            raise ValueError(f"span_s: {self.span_s} is not a positive finite number")
        object.__setattr__(self, "span_s", float(self.span_s))
        _check_arrivals(arrival_s, self.span_s)

    def __len__(self) -> int:
        """Number of requests."""
        return int(self.arrival_s.size)

    @property
    def mean_rate_rps(self) -> float:
        """Requests per second over the whole range."""
        return len(self) / self.span_s

    def within(self, from_s: float, to_s: float) -> Requests:
        """Cuts the range [from_s, to_s) out, its start being the new zero.

        Args:
            from_s: Start of the cut, seconds of this range.
            to_s: End of the cut; at `span_s` an arrival exactly there is kept.

        Returns:
            The requests of the cut, with a span of `to_s - from_s`.
        """
        if not 0 <= from_s < to_s <= self.span_s:
            raise ValueError(
                f"[{from_s}, {to_s}] is no range within the workload's [0, {self.span_s}] seconds"
            )
        first = int(np.searchsorted(self.arrival_s, from_s, side="left"))
        last = len(self)
        if to_s < self.span_s:
            last = int(np.searchsorted(self.arrival_s, to_s, side="left"))
        return Requests(
            self.arrival_s[first:last] - from_s,
            self.prompt_tokens[first:last],
            self.output_tokens[first:last],
            to_s - from_s,
        )

    def without_long_prompts(self, max_prompt_tokens: int) -> Requests:
        """Leaves out every request with more than `max_prompt_tokens` prompt tokens."""
        if max_prompt_tokens < 1:
            raise ValueError(f"max_prompt_tokens: {max_prompt_tokens} is not at least 1")
        return self._take(self.prompt_tokens <= max_prompt_tokens)

    def _take(self, index: NDArray[np.bool_] | NDArray[np.intp]) -> Requests:
        return Requests(
            self.arrival_s[index],
            self.prompt_tokens[index],
            self.output_tokens[index],
            self.span_s,
        )


def superpose(requests: Requests, scale: float, *, seed: int, max_shift_s: float) -> Requests:
    """Scales a load by laying time-shifted copies over each other; time is never squeezed.

    There are `floor(scale)` whole copies and, for the rest, one in which each request is kept
    with that probability. The first copy stays in place; each further one is moved circularly
    within the range by an offset drawn uniformly from [-max_shift_s, max_shift_s], so that the
    copies' bursts do not coincide.

    Args:
        requests: The load to scale.
        scale: Factor on the mean rate, above 0; below 1 it thins.
        seed: Of offsets and thinning; equal arguments give equal bytes.
        max_shift_s: Largest offset in seconds.

    Returns:
        The scaled load, sorted, with the same span.
    """
    if not (np.isfinite(scale) and scale > 0):
        raise ValueError(f"scale: {scale} is not a positive finite number")
    if not (np.isfinite(max_shift_s) and max_shift_s >= 0):
        raise ValueError(f"max_shift_s: {max_shift_s} is not a finite number of at least 0")
    rng = np.random.default_rng(seed)
    whole = int(scale)
    rest = scale - whole
    arrivals: list[NDArray[np.float64]] = []
    rows: list[NDArray[np.intp]] = []
    for copy in range(whole + (rest > 0)):
        shift_s = float(rng.uniform(-max_shift_s, max_shift_s)) if copy else 0.0
        row = np.arange(len(requests))
        if copy == whole:
            row = row[rng.random(len(requests)) < rest]
        arrivals.append(_shifted(requests.arrival_s[row], shift_s, requests.span_s))
        rows.append(row)
    arrival_s = np.concatenate(arrivals)
    row = np.concatenate(rows)
    order = np.argsort(arrival_s, kind="stable")
    row = row[order]
    return Requests(
        arrival_s[order], requests.prompt_tokens[row], requests.output_tokens[row], requests.span_s
    )


def _shifted(arrival_s: NDArray[np.float64], shift_s: float, span_s: float) -> NDArray[np.float64]:
    """Moves arrivals circularly within [0, span_s)."""
    if shift_s == 0:
        return arrival_s
    moved = np.mod(arrival_s + shift_s, span_s)
    moved[moved >= span_s] = 0.0  # a tiny negative number rounds up to the span itself
    return moved


def _token_array(name: str, values: NDArray[np.generic]) -> NDArray[np.int32]:
    """Checks that values are whole numbers from 1 to `MAX_TOKENS` and makes them int32."""
    tokens = np.asarray(values)
    if tokens.dtype.kind not in "iuf":
        raise ValueError(f"{name}: numbers expected, got an array of {tokens.dtype}")
    good = (tokens >= 1) & (tokens <= MAX_TOKENS)
    if tokens.dtype.kind == "f":
        good &= np.floor(tokens) == tokens
    if not good.all():
        index = int(np.argmin(good))
        raise ValueError(
            f"{name}[{index}]: {tokens.flat[index]} is not a whole number of at least 1"
        )
    return np.ascontiguousarray(tokens, dtype=np.int32)


def _check_arrivals(arrival_s: NDArray[np.float64], span_s: float) -> None:
    """Raises ValueError at the first arrival out of order or out of the range."""
    good = (arrival_s >= 0) & (arrival_s <= span_s)  # false for NaN
    if not good.all():
        index = int(np.argmin(good))
        raise ValueError(
            f"arrival_s[{index}]: {arrival_s[index]} lies outside the range [0, {span_s}]"
        )
    falling = arrival_s[1:] < arrival_s[:-1]
    if falling.any():
        index = int(np.argmax(falling)) + 1
        raise ValueError(
            f"arrival_s[{index}]: {arrival_s[index]} comes before {arrival_s[index - 1]}; "
            "arrivals must be sorted"
        )
