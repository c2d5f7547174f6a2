"""Whether a model fits on its GPUs, with room for the keys and values of what it serves."""

from __future__ import annotations

from typing import Final

from .profile import Profile

USED_SHARE: Final = 0.9
"""Share of the memory an engine takes (vLLM's `gpu_memory_utilization`, default 0.9 until 2025)."""
OVERHEAD_GIB: Final = 2.7
"""Activations, graphs and libraries a GPU: read off one measured vLLM log (H100, TP4), see the
caveats in profiles.json of the trace folder."""
_GIB: Final = 1024.0**3


def memory_problem(profile: Profile, kv_tokens: int | None = None) -> str | None:
    """Says why a replica of this profile cannot exist.

    Args:
        profile: Where its memory is not stated, nothing can be said.
        kv_tokens: Tokens the KV cache is to hold, where not the profile's own; None: those.

    Returns:
        One line that begins with the key of the profile, or None where it fits.
    """
    weights, vram, gpus = profile.weights_gib, profile.vram_gib, profile.gpus_per_replica
    if weights is None or vram is None:
        return None
    where = f"the {vram:g} GiB of its {gpus} GPU{'' if gpus == 1 else 's'}"
    tokens = profile.kv_capacity_tokens if kv_tokens is None else kv_tokens
    token_gib = (profile.kv_bytes_per_token or 0) / _GIB
    if weights >= vram:
        return (
            f"memory.weights_gib_per_gpu: weights of {weights:.4g} GiB do not fit into {where}; "
            "expected more GPUs (gpus_per_replica), a smaller model or a lower precision"
        )
    if tokens is None and USED_SHARE * vram - OVERHEAD_GIB * gpus <= weights:
        return (
            f"memory.weights_gib_per_gpu: weights of {weights:.4g} GiB leave no room for a KV "
            f"cache in {where} ({USED_SHARE:.0%} less {OVERHEAD_GIB} GiB a GPU can be used); "
            "expected more GPUs, a smaller model, or kv_capacity_tokens as the engine reports it"
        )
    if tokens is not None and weights + tokens * token_gib > vram:
        key = "memory.kv_capacity_tokens" if kv_tokens is None else "KV cache"
        return (
            f"{key}: {tokens:,} tokens take {tokens * token_gib:.4g} GiB and weights "
            f"{weights:.4g} GiB, together more than {where}; "
            f"expected at most {int((vram - weights) / token_gib):,} tokens"
        )
    return None
