"""What the shipped models are fitted to, and how; `shipped` makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .fit import LENGTH_POINTS
from .group import Facts


@dataclass(frozen=True)
class Recipe:
    """How one shipped model is fitted."""

    facts: Facts
    """Source and licence; `fitted_to` begins with the file in the traces folder."""
    span_s: float
    """Length of the range; a file's last arrival does not quite show it."""
    bins: int
    """Bins of the rate curve."""
    by_client: bool = False
    """A group for each tenant."""
    most_groups: int | None = None
    """At most so many groups, the last for all other tenants."""
    length_points: int | None = LENGTH_POINTS
    """Points of each length table; None: at the percentiles."""

    @property
    def file(self) -> str:
        """Name of the trace's file."""
        return self.facts.fitted_to.split(" ")[0]


_AZURE: Final = "Azure/AzurePublicDataset, commit b469a113cedca53ddc3bdea71a143dc4b7d8700c, data/"
_AZURE_LICENCE: Final = "CC-BY 4.0 (changes: rates, gap law and length quantiles only)"
_AZURE_ATTRIBUTION: Final = (
    "Azure LLM inference trace 2023, Microsoft Azure; cite: Splitwise: Efficient generative LLM "
    "inference using phase splitting, ISCA 2024"
)
_SERVEGEN: Final = "alibaba/ServeGen, commit f891d1189eb32b3868dfc443800c4150548c282a, data/"
_SERVEGEN_LICENCE: Final = "Apache-2.0 (changes: rates, gap laws and length quantiles only)"
_SERVEGEN_ATTRIBUTION: Final = "ServeGen, Alibaba Cloud Model Studio data; cite arXiv:2505.09999"
_RESAMPLED: Final = "resampled from published production statistics, no recorded requests"

RECIPES: Final = (
    Recipe(
        Facts(
            name="azure-code-2023",
            description=(
                "An hour of code completion: bursts of some ten seconds between silences, long "
                "prompts, short answers."
            ),
            fitted_to="azure-2023-code.csv.gz (the whole published trace)",
            source=_AZURE + "AzureLLMInferenceTrace_code.csv",
            licence=_AZURE_LICENCE,
            attribution=_AZURE_ATTRIBUTION,
        ),
        span_s=3436.0,
        bins=6,
    ),
    Recipe(
        Facts(
            name="azure-conv-2023",
            description="Half an hour of a conversation service: level rate, almost Poisson.",
            fitted_to="azure-2023-conv-h1.csv.gz (first half of the published trace, by time)",
            source=_AZURE + "AzureLLMInferenceTrace_conv.csv",
            licence=_AZURE_LICENCE,
            attribution=_AZURE_ATTRIBUTION,
        ),
        span_s=1751.0,
        bins=10,
        length_points=None,
    ),
    Recipe(
        Facts(
            name="mooncake-conversation",
            description=(
                "Half an hour of a chat service with very long prompts; its published times are in "
                "steps of 3 s, so nothing shorter is real."
            ),
            fitted_to="mooncake-conversation-h1.csv.gz (the first 1,800 s, times spread over 3 s)",
            source=(
                "kvcache-ai/Mooncake, commit 3b5a594133958449a1feaf1c9e0fc1b553e34a28, "
                "FAST25-release/traces/conversation_trace.jsonl"
            ),
            licence="Apache-2.0 (changes: rates, gap law and length quantiles only)",
            attribution="Mooncake project; cite the Mooncake paper of FAST 2025",
        ),
        span_s=1800.0,
        bins=10,
    ),
    Recipe(
        Facts(
            name="servegen-m-large",
            description="A week of a large general model, many tenants: nights, days, a weekend.",
            fitted_to=f"servegen-mlarge-w1.parquet ({_RESAMPLED}; 0.0075 of the published rate)",
            source=_SERVEGEN + "language/m-large, days 0 to 6",
            licence=_SERVEGEN_LICENCE,
            attribution=_SERVEGEN_ATTRIBUTION,
        ),
        span_s=604800.0,
        bins=168,
        by_client=True,
        most_groups=20,
    ),
    Recipe(
        Facts(
            name="servegen-r1",
            description="A day of a reasoning model: short prompts, very long answers.",
            fitted_to=f"servegen-r1-24h.parquet ({_RESAMPLED}; a quarter of the published rate)",
            source=_SERVEGEN + "reason/deepseek-r1, first day",
            licence=_SERVEGEN_LICENCE,
            attribution=_SERVEGEN_ATTRIBUTION,
        ),
        span_s=86400.0,
        bins=144,
        by_client=True,
        most_groups=20,
    ),
    Recipe(
        Facts(
            name="servegen-tenants",
            description=(
                "A day of twelve tenants of a general service, each with bursts of its own; one "
                "alone jumps to about 14 requests a second."
            ),
            fitted_to=f"servegen-tenants-24h.parquet ({_RESAMPLED})",
            source=_SERVEGEN + "language/m-large, 12 clients of day 2",
            licence=_SERVEGEN_LICENCE,
            attribution=_SERVEGEN_ATTRIBUTION,
        ),
        span_s=86400.0,
        bins=144,
        by_client=True,
        length_points=None,
    ),
)
"""In the order of their names."""
