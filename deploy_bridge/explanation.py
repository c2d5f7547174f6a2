"""Why a decision was what it was, in plain words, from its recorded content alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ..envs.schema.action import ACTION_DIMS
from ..envs.schema.settings import THRESHOLD_STEP

_SCALING: Final = ("one replica fewer", "the same number of replicas", "one replica more")
_BREAKER: Final = ("the threshold lower", "the threshold unchanged", "the threshold higher")
_SHOWN: Final = {
    "replicas_requested": "{:.0f} replicas asked for",
    "replicas_ready": "{:.0f} ready",
    "breaker_threshold": "threshold {:.2f}",
    "request_rate_rps": "{:.1f} requests/s",
    "error_rate": "error rate {:.3f}",
    "ttft_p95_s": "TTFT P95 {:.2f} s",
    "waiting": "{:.0f} waiting",
    "kv_usage": "KV cache {:.2f}",
}
"""What a reader wants to know of a reading; all of it stands in the record."""
_OUTCOMES: Final = {
    "would_apply": "would change settings",
    "unchanged": "no change",
    "held": "held",
}


def moment(at_s: float) -> str:
    """A wall time for people, in UTC."""
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def settings_line(settings: Mapping[str, Any] | None) -> str:
    """Settings in words."""
    if settings is None:
        return "unknown"
    line = (
        f"{settings['replicas']} replicas, "
        f"threshold {settings['threshold_steps'] * THRESHOLD_STEP:.2f}"
    )
    limit = settings["max_outstanding"]
    return line if limit is None else f"{line}, at most {limit} in flight"


def headline(content: Mapping[str, Any]) -> str:
    """One line: which tick, what came of it."""
    line = f"{_OUTCOMES[content['outcome']]}"
    if content["outcome"] == "would_apply":
        before, after = settings_line(content["in_force"]), settings_line(content["final"])
        line = f"{line}: {before} -> {after}"
    return f"Record {content['seq']}, {moment(content['at_s'])}: {line}"


def explained(content: Mapping[str, Any], texts: Mapping[str, str]) -> list[str]:
    """The whole answer to "why", one line a point.

    Args:
        content: A decision's content.
        texts: Query texts by key, as far as they are known.
    """
    lines = [headline(content), f"Because: {content['reason']}"]
    mode = content["mode"]
    lines.append(
        f"Mode: {content['mode_before']} before, {mode['mode']} after the tick"
        + (f" ({mode['reason']})" if mode["reason"] and content["mode_before"] == "NORMAL" else "")
    )
    if content["doubts"]:
        lines.append("Doubts:")
        for doubt in content["doubts"]:
            lines.append(f"  {doubt['kind']}: {doubt['what']}: {doubt['detail']}")
            lines += [
                f"    asked: {texts.get(key, key)}"
                for name, key, _ in content["evidence"]
                if name == doubt["what"]
            ]
    lines.append(f"Seen: {_seen(content['values'])}")
    lines += [f"Note: {note}" for note in content["notes"]]
    if content["action"] is not None:
        lines.append(f"Policy: {_chosen(content['action'], content['logits'])}")
        lines.append(f"Proposal: {settings_line(content['proposal'])}")
    else:
        lines.append("Policy: not asked" if content["in_force"] is None else "Policy: no answer")
    lines += [
        f"Guardrail {verdict['guardrail']}: {verdict['result']}"
        + (f", {verdict['reason']}" if verdict["reason"] else "")
        for verdict in content["verdicts"]
    ]
    if content["incumbent"] is not None:
        lines.append(f"Incumbent: {settings_line(content['incumbent'])}")
    if content["outcome"] == "would_apply":
        lines.append(
            f"Lifecycle {content['lifecycle']}: nobody carries it out; it would have been valid "
            f"until {moment(content['expires_at_s'])}"
        )
    return lines


def _seen(values: Mapping[str, Any]) -> str:
    known = [form.format(float(values[name])) for name, form in _SHOWN.items() if name in values]
    unknown = [name for name in _SHOWN if name not in values]
    if not known:
        return "nothing"
    return ", ".join(known) + (f"; not known: {', '.join(unknown)}" if unknown else "")


def _chosen(action: Sequence[int], logits: Sequence[float]) -> str:
    words = f"{_SCALING[action[0]]}, {_BREAKER[action[1]]}"
    if len(logits) == sum(ACTION_DIMS):
        heads = logits[: ACTION_DIMS[0]], logits[ACTION_DIMS[0] :]
        margins = [_margin(head) for head in heads]
        return f"{words} (ahead of the next choice by {margins[0]:.3g} and {margins[1]:.3g})"
    return f"{words} (ahead of the next choice by {_margin(logits):.3g})"


def _margin(logits: Sequence[float]) -> float:
    first, second = sorted(logits, reverse=True)[:2]
    return first - second
