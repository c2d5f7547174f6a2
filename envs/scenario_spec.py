"""The parts of a scenario as frozen dataclasses; a YAML scenario maps 1:1 onto them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field

from .scenario_numbers import (
    MOST_BLOCK_TOKENS,
    MOST_CLIENT_RETRIES,
    MOST_RETRIES,
    MOST_SCALE,
    MOST_SEQUENCES,
    MOST_TIMEOUT_S,
    SPEC_CONFIG,
    Count,
    CountFromZero,
    Interval,
    LoadSeconds,
    Percent,
    PositiveLoadSeconds,
    PositiveSeconds,
    Range,
    Rate,
    Replicas,
    Seconds,
    Share,
)

_MOST_SCRAPES: Final = 100_000
"""Most scrapes in a window: each is kept for every replica."""


@dataclass(frozen=True)
class WorkloadSpec:
    """Where requests come from, which part of it, and how much."""

    __pydantic_config__: ClassVar[ConfigDict] = SPEC_CONFIG

    trace: str | None = None
    """File in the traces folder, or a path; None: the model alone."""
    model: str | None = None
    """Workload model (shipped name or JSON file), used where the trace is absent."""
    rate_scale: Annotated[float, Field(gt=0, le=MOST_SCALE)] = 1.0
    """Factor on the rate, by superposing time-shifted copies."""
    max_prompt_tokens: Count | None = None
    """Requests with longer prompts are left out; None: all stay."""
    from_s: LoadSeconds = 0.0
    """Start of the part used, in seconds of the workload's own time."""
    to_s: PositiveLoadSeconds | None = None
    """End of the part used; None: the model's own span."""
    max_shift_s: LoadSeconds = 1800.0
    """Largest shift of a superposed copy: the daily swing stays, bursts do not coincide."""

    def __post_init__(self) -> None:
        """Checks what concerns more than one key."""
        if self.trace is None and self.model is None:
            raise ValueError("trace: give a trace, a model, or both")
        if self.to_s is None and self.model is None:
            raise ValueError("to_s: needed where no model is named")
        if self.to_s is not None and self.to_s <= self.from_s:
            raise ValueError(f"to_s: {self.to_s} must lie after from_s ({self.from_s})")


@dataclass(frozen=True)
class ClusterSpec:
    """Replicas and their engine limits."""

    __pydantic_config__: ClassVar[ConfigDict] = SPEC_CONFIG

    min_replicas: Replicas = 1
    """Fewest replicas a policy may ask for."""
    max_replicas: Replicas = 16
    """Most replicas a policy may ask for."""
    initial_replicas: Replicas | None = None
    """Ready replicas at the start of an episode; None: three quarters of max_replicas, so that an
    episode seldom begins with a shortage that no policy has caused."""
    start: Literal["cold", "cached", "warm", "lazy"] | None = None
    """What a replica that is ordered has to do. `cold`: all of it. `cached`: weights and compiled
    code are on the node. `warm`: a loaded standby is switched in. `lazy`: once its process is up it
    takes requests, and loads with the first. Times are the profile's. None: `cold_start_s`."""
    cold_start_s: Seconds | None = None
    """From order to ready, in place of a `start`; None: the profile's."""
    cold_start_spread: Share = 0.1
    """Relative spread of the cold start: uniform within +- this share."""
    max_num_seqs: Annotated[int, Field(ge=1, le=MOST_SEQUENCES)] = 128
    """Sequences a replica holds at once, prefilling ones included."""
    chunk_tokens: Count = 512
    """Token budget of an iteration (chunked prefill)."""
    kv_blocks: Count | None = None
    """KV blocks a replica has; None: the profile's KV capacity over block_tokens."""
    block_tokens: Annotated[int, Field(ge=1, le=MOST_BLOCK_TOKENS)] = 16
    """Tokens a KV block holds (vLLM's default)."""
    prefix_cache: bool = True
    """Whether a replica reuses prompt prefixes that it has computed (vLLM's default); only traces
    that tell the prefixes have any."""

    def __post_init__(self) -> None:
        """Checks what concerns more than one key."""
        if self.start is not None and self.cold_start_s is not None:
            raise ValueError(f"cold_start_s: {self.start} has the profile's times; give one")
        if self.max_num_seqs > self.chunk_tokens:
            raise ValueError(
                f"max_num_seqs: {self.max_num_seqs} must not exceed chunk_tokens "
                f"({self.chunk_tokens}): each decoding sequence takes a token of an iteration; "
                f"raise chunk_tokens to {self.max_num_seqs} or more, or lower max_num_seqs"
            )
        if self.min_replicas > self.max_replicas:
            raise ValueError(
                f"min_replicas: {self.min_replicas} must not exceed "
                f"max_replicas ({self.max_replicas})"
            )
        initial = self.initial_replicas
        if initial is not None and not self.min_replicas <= initial <= self.max_replicas:
            raise ValueError(
                f"initial_replicas: {initial} must lie within "
                f"{self.min_replicas} to {self.max_replicas}"
            )

    @property
    def start_replicas(self) -> int:
        """Ready replicas at the start of an episode."""
        if self.initial_replicas is not None:
            return self.initial_replicas
        return max(self.min_replicas, round(0.75 * self.max_replicas))


@dataclass(frozen=True)
class LimitsSpec:
    """Rate limits in front of the replicas, off unless set; what they turn away gets 429."""

    __pydantic_config__: ClassVar[ConfigDict] = SPEC_CONFIG

    rate_rps: Rate | None = None
    """Requests a second that the gateway's token bucket lets in; None: no bucket."""
    burst: Count = 200
    """What the bucket holds (source documents, B11)."""
    replica_rate_rps: Rate | None = None
    """The same for each replica's own bucket (source documents, B11: 50)."""
    replica_burst: Count = 200
    """What it holds."""
    kv_rps: Rate | None = None
    """Base rate of the limit by mean KV-cache use: none below 50 %, base x max(0.3, 1 - use) up to
    80 %, a tenth of the base above (source documents, C11: 100); None: off."""
    error_adaptive: bool = False
    """Whether `rate_rps` is cut by twice the error rate (source documents, D13)."""
    interval_s: Interval = 1.0
    """How often the last two are set anew."""

    def __post_init__(self) -> None:
        """Checks what concerns more than one key."""
        if self.error_adaptive and self.rate_rps is None:
            raise ValueError("error_adaptive: needs rate_rps, the rate it cuts")


@dataclass(frozen=True)
class GatewaySpec:
    """Routing, breaker (Envoy's outlier detection), retries, timeouts, draining."""

    __pydantic_config__: ClassVar[ConfigDict] = SPEC_CONFIG

    router: Literal[
        "round_robin", "random", "least_outstanding", "fewest_waiting", "dynamic_weight"
    ] = "least_outstanding"
    """How a replica is chosen among those ready and not ejected."""
    threshold_steps: Annotated[int, Field(ge=1, le=19)] = 10
    """Breaker threshold at the start, in steps of 0.05."""
    breaker_interval_s: Interval = 10.0
    """Time between the breaker's looks (Envoy `interval`)."""
    minimum_hosts: Count = 2
    """Replicas with enough requests below which none is ejected."""
    request_volume: Count = 10
    """Requests in an interval that make a replica's failure share count."""
    base_ejection_s: PositiveLoadSeconds = 30.0
    """First ejection's length; multiplied by the number of ejections."""
    max_ejection_s: PositiveLoadSeconds = 300.0
    """Cap of an ejection's length (Envoy's default)."""
    max_ejection_percent: Percent = 50
    """Share of replicas that may be ejected at once, in percent as in Envoy."""
    always_eject_one_host: bool = False
    """Whether the first ejection disregards that share (off in current Envoy)."""
    enforcing_percent: Percent = 100
    """Chance that an outlier found is ejected (Envoy's `enforcing_failure_percentage`)."""
    max_ejection_jitter_s: LoadSeconds = 0.0
    """Most that is added to an ejection at random (Envoy's `max_ejection_time_jitter`)."""
    consecutive_5xx: CountFromZero = 0
    """Failures in a row that eject a replica at once, whatever the threshold; 0: off, so that the
    threshold alone decides (Envoy's default is 5)."""
    panic_percent: Percent = 50
    """Share of ready replicas left below which ejections are disregarded (Envoy's default)."""
    max_retries: Annotated[int, Field(ge=0, le=MOST_RETRIES)] = 1
    """Further attempts of a failed request, on another replica."""
    retry_budget_share: Share = 0.2
    """Retries in flight over active requests, at most."""
    retry_budget_min: CountFromZero = 3
    """Retries in flight that are always allowed."""
    retry_delay_s: Seconds = 0.025
    """Pause before a retry (Envoy's base interval)."""
    request_timeout_s: Annotated[float, Field(gt=0, le=MOST_TIMEOUT_S)] = 600.0
    """A request that takes longer is an error."""
    timeout_step_s: Seconds = 0.0
    """Added to the timeout for each full `timeout_step_tokens` of the prompt above the first
    (source documents, A1: 30 s, and 15 s for each 512 tokens above 512; twice that for 32B
    models)."""
    timeout_step_tokens: Count = 512
    """See `timeout_step_s`."""
    client_retries: Annotated[int, Field(ge=0, le=MOST_CLIENT_RETRIES)] = 0
    """Times that a client whose request failed, timed out or was shed sends it again. These are new
    requests to the gateway, outside its retry budget: what a retry storm is made of."""
    client_retry_delay_s: PositiveSeconds = 1.0
    """Pause of the client before it does."""
    max_outstanding: CountFromZero | None = None
    """Requests in the plant at once, over which arrivals are shed; None: no limit."""
    max_waiting: CountFromZero | None = None
    """Requests waiting for a place in a batch, over which arrivals are shed; None: no limit."""
    max_pending: CountFromZero = 0
    """Requests the gateway holds while no replica may be routed to; further ones fail (503)."""
    limits: LimitsSpec = field(default_factory=LimitsSpec)
    """Rate limits."""
    drain_min_s: Seconds = 30.0
    """Least deadline of a draining replica."""

    def __post_init__(self) -> None:
        """Checks what concerns more than one key."""
        if self.max_ejection_s < self.base_ejection_s:
            raise ValueError(
                f"max_ejection_s: {self.max_ejection_s} must not be below "
                f"base_ejection_s ({self.base_ejection_s})"
            )


@dataclass(frozen=True)
class TelemetrySpec:
    """What scrapes and windows show of the plant."""

    __pydantic_config__: ClassVar[ConfigDict] = SPEC_CONFIG

    scrape_interval_s: Interval = 5.0
    """Time between two scrapes."""
    window_s: PositiveSeconds = 60.0
    """Window of rates, error share and P95."""
    minimum_samples: Count = 20
    """Requests in a window below which its shares and quantiles are missing."""
    late_after_s: PositiveSeconds = 0.8
    """Age at which a request that still waits for its first token counts into the plant's own
    P95, which rewards look at: the latency limit of the service."""

    def __post_init__(self) -> None:
        """Checks what concerns more than one key."""
        if self.window_s < self.scrape_interval_s:
            raise ValueError(
                f"window_s: {self.window_s} must not be below "
                f"scrape_interval_s ({self.scrape_interval_s})"
            )
        if self.window_s > _MOST_SCRAPES * self.scrape_interval_s:
            raise ValueError(
                f"window_s: {self.window_s} must not exceed {_MOST_SCRAPES:,} times "
                f"scrape_interval_s ({self.scrape_interval_s})"
            )


@dataclass(frozen=True)
class ControlSpec:
    """Rhythm of decisions."""

    __pydantic_config__: ClassVar[ConfigDict] = SPEC_CONFIG

    tick_s: PositiveSeconds = 15.0
    """Time between two decisions."""
    episode_ticks: Count = 240
    """Decisions in an episode."""
    warmup_s: Seconds = 60.0
    """Time the plant runs before an episode's first observation."""


@dataclass(frozen=True)
class Splits:
    """Disjoint ranges of the workload's own time; None: 14/24, 2/24 and 8/24 of it."""

    __pydantic_config__: ClassVar[ConfigDict] = SPEC_CONFIG

    train: Range | None = None
    """Seconds [from, to) to train on."""
    validation: Range | None = None
    """Seconds [from, to) to choose checkpoints on."""
    test: Range | None = None
    """Seconds [from, to) to report on."""

    def __post_init__(self) -> None:
        """Checks each range."""
        for name in ("train", "validation", "test"):
            given = getattr(self, name)
            if given is not None and given[0] >= given[1]:
                raise ValueError(f"{name}: [{given[0]}, {given[1]}] must start before it ends")
