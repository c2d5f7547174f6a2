"""Requests as arrays, and the ways to cut, filter and multiply them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .prefix import NO_PARENT, check_prefixes, kept_prefixes, reordered_prefixes

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
    prefix_hit_tokens: NDArray[np.int32] | None = None
    """Leading prompt tokens that an earlier request has brought, below `prompt_tokens`; None:
    unknown."""
    prefix_parent: NDArray[np.int64] | None = None
    """Row of the latest request that brought them, -1 where the hit is 0; None: unknown."""
    client: NDArray[np.int32] | None = None
    """Tenant of each request, a place in `client_names`; None: unknown."""
    client_names: tuple[str, ...] = ()
    """Names of the tenants."""

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
        self._check_prefixes()
        self._check_clients()

    def _check_prefixes(self) -> None:
        """Brings the columns of prefix reuse to their types and checks them."""
        if self.prefix_hit_tokens is None and self.prefix_parent is None:
            return
        if self.prefix_hit_tokens is None or self.prefix_parent is None:
            raise ValueError("prefix_hit_tokens and prefix_parent: both are needed, or neither")
        hit = self._column("prefix_hit_tokens", np.dtype(np.int32))
        parent = self._column("prefix_parent", np.dtype(np.int64))
        check_prefixes(hit, parent, self.prompt_tokens)

    def _check_clients(self) -> None:
        """Brings the tenants to their type and checks them."""
        if self.client is None:
            if self.client_names:
                raise ValueError("client_names: there are names and no client column")
            return
        client = self._column("client", np.dtype(np.int32))
        good = (client >= 0) & (client < len(self.client_names))
        if not good.all():
            index = int(np.argmin(good))
            raise ValueError(
                f"client[{index}]: {client[index]} is no place in the {len(self.client_names)} "
                "client_names"
            )

    def _column(self, name: str, kind: np.dtype[Any]) -> NDArray[Any]:
        """Brings an optional column of whole numbers to its type and length."""
        values = np.asarray(getattr(self, name))
        if values.dtype.kind not in "iu":
            raise ValueError(f"{name}: whole numbers expected, got an array of {values.dtype}")
        if values.shape != self.arrival_s.shape:
            raise ValueError(
                f"{name}: {values.size} values for {len(self)} arrivals; "
                "the arrays must be equally long"
            )
        column = np.ascontiguousarray(values, dtype=kind)
        object.__setattr__(self, name, column)
        return column

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
        return self.take(slice(first, last), start_s=from_s, span_s=to_s - from_s)

    def without_long_prompts(self, max_prompt_tokens: int) -> Requests:
        """Leaves out every request with more than `max_prompt_tokens` prompt tokens."""
        if max_prompt_tokens < 1:
            raise ValueError(f"max_prompt_tokens: {max_prompt_tokens} is not at least 1")
        return self.take(np.flatnonzero(self.prompt_tokens <= max_prompt_tokens))

    def of_clients(self, clients: Collection[int]) -> Requests:
        """Keeps the requests of some tenants, whole: their bursts stay what they are.

        Args:
            clients: Places in `client_names`.

        Raises:
            ValueError: The tenants are unknown.
        """
        if self.client is None:
            raise ValueError("client: these requests name no tenants")
        return self.take(np.flatnonzero(np.isin(self.client, list(clients))))

    def take(
        self,
        rows: slice | NDArray[np.intp],
        *,
        start_s: float = 0.0,
        span_s: float | None = None,
    ) -> Requests:
        """Keeps some of the requests.

        A request whose `prefix_parent` is left out takes that one's nearest kept ancestor and
        the part of the hit it vouches for; without one nothing is reused.

        Args:
            rows: Which, rising and each at most once.
            start_s: Second of this range that becomes zero.
            span_s: Length of the new range; None: as it is.
        """
        hit, parent = self.prefix_hit_tokens, self.prefix_parent
        if hit is not None and parent is not None:
            hit, parent = kept_prefixes(hit, parent, np.arange(len(self))[rows])
        return Requests(
            self.arrival_s[rows] - start_s,
            self.prompt_tokens[rows],
            self.output_tokens[rows],
            self.span_s if span_s is None else span_s,
            hit,
            parent,
            None if self.client is None else self.client[rows],
            self.client_names,
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
    order = np.argsort(arrival_s, kind="stable")
    row = np.concatenate(rows)[order]
    hit, parent = _copied_prefixes(requests, rows, order)
    return Requests(
        arrival_s[order],
        requests.prompt_tokens[row],
        requests.output_tokens[row],
        requests.span_s,
        hit,
        parent,
        None if requests.client is None else requests.client[row],
        requests.client_names,
    )


def _copied_prefixes(
    requests: Requests, rows: list[NDArray[np.intp]], order: NDArray[np.intp]
) -> tuple[NDArray[np.int32] | None, NDArray[np.int64] | None]:
    """Hits and parents of copies laid over each other; each copy reuses only its own prompts."""
    if requests.prefix_hit_tokens is None or requests.prefix_parent is None:
        return None, None
    hits, parents = [], []
    first = 0
    for row in rows:
        hit, parent = kept_prefixes(requests.prefix_hit_tokens, requests.prefix_parent, row)
        hits.append(hit)
        parents.append(np.where(parent == NO_PARENT, NO_PARENT, parent + first))
        first += row.size
    return reordered_prefixes(np.concatenate(hits), np.concatenate(parents), order)


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
            f"{name}[{index}]: {tokens.flat[index]} is not a whole number from 1 to {MAX_TOKENS:,}"
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
