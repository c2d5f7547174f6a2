"""The part of the OpenAI interface that vLLM serves and that the testbed needs.

How long a prompt is: a list of numbers counts as token ids; a text counts its words, one token a
word. `max_tokens` (or `max_completion_tokens`) is the length of the answer: the emulation never
ends one early, as vLLM with `ignore_eos`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

DEFAULT_OUTPUT_TOKENS: Final = 16
"""`max_tokens` where the request says none (OpenAI's default for completions)."""
WORD: Final = " token"
"""What every generated token reads."""


class RequestError(ValueError):
    """A request that cannot be served: one line for the client."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request, understood."""

    is_chat: bool
    """`/v1/chat/completions` rather than `/v1/completions`."""
    prompt_tokens: int
    """Length of the prompt, at least 1."""
    output_tokens: int
    """Length of the answer, at least 1."""
    is_streamed: bool
    """Whether tokens are sent as they come."""
    with_usage: bool
    """Whether a stream ends with the token counts."""


def parse_call(body: Any, *, is_chat: bool, model: str) -> Call:  # noqa: ANN401
    """Reads a request's body.

    Args:
        body: Parsed JSON.
        is_chat: Which of the two interfaces was called.
        model: Name of the model that is served.

    Raises:
        RequestError: A key is missing or of the wrong kind.
    """
    if not isinstance(body, Mapping):
        raise RequestError("the body must be a JSON object")
    asked = body.get("model", model)
    if asked != model:
        raise RequestError(f"model {asked!r} does not exist; {model!r} is served")
    limit = body.get("max_completion_tokens", body.get("max_tokens", DEFAULT_OUTPUT_TOKENS))
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise RequestError(f"max_tokens: {limit!r} is not a whole number of at least 1")
    options = body.get("stream_options")
    return Call(
        is_chat,
        max(_chat_length(body) if is_chat else _length("prompt", body.get("prompt")), 1),
        limit,
        bool(body.get("stream", False)),
        isinstance(options, Mapping) and bool(options.get("include_usage", False)),
    )


def _chat_length(body: Mapping[str, Any]) -> int:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RequestError("messages: a list with at least one message is needed")
    if not all(isinstance(message, Mapping) for message in messages):
        raise RequestError("messages: each must be an object with a role and a content")
    return sum(_length("messages.content", message.get("content")) for message in messages)


def _length(key: str, content: Any) -> int:  # noqa: ANN401
    """Tokens of a text, of a list of token ids, or of a chat message's list of parts."""
    if isinstance(content, str):
        return len(content.split())
    if isinstance(content, list):
        if all(isinstance(part, int) for part in content):
            return len(content)
        if all(isinstance(part, Mapping) for part in content):
            return sum(len(str(part.get("text", "")).split()) for part in content)
    raise RequestError(f"{key}: a text or a list of token ids is needed")


class Wording:
    """The bytes of one answer; what every token shares is made once."""

    def __init__(self, call: Call, *, answer_id: str, model: str, created_s: int) -> None:
        """Prepares an answer.

        Args:
            call: What is answered.
            answer_id: Its id, without the interface's prefix.
            model: Name of the model.
            created_s: Seconds since the epoch.
        """
        self._call = call
        prefix, kind = (
            ("chatcmpl", "chat.completion") if call.is_chat else ("cmpl", "text_completion")
        )
        self._head: dict[str, Any] = {
            "id": f"{prefix}-{answer_id}",
            "object": kind,
            "created": created_s,
            "model": model,
        }
        self._token = self._event(self._piece(WORD, None))

    def tokens(self, n: int, *, is_first: bool, is_last: bool) -> bytes:
        """The events of n further tokens, and what stands before the first and after the last."""
        parts = [self._token] * n
        if is_first and self._call.is_chat:
            role = {
                "index": 0,
                "delta": {"role": "assistant", "content": ""},
                "finish_reason": None,
            }
            parts.insert(0, self._event({"choices": [role]}))
        if is_last:
            parts[-1] = self._event(self._piece(WORD, "length"))
            if self._call.with_usage:
                parts.append(self._event({"choices": [], "usage": self._usage}))
            parts.append(b"data: [DONE]\n\n")
        return b"".join(parts)

    def whole(self) -> dict[str, Any]:
        """The whole answer as one object."""
        text = WORD * self._call.output_tokens
        choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
        if self._call.is_chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        return {**self._head, "choices": [choice], "usage": self._usage}

    @property
    def _usage(self) -> dict[str, int]:
        call = self._call
        return {
            "prompt_tokens": call.prompt_tokens,
            "completion_tokens": call.output_tokens,
            "total_tokens": call.prompt_tokens + call.output_tokens,
        }

    def _piece(self, text: str, finish_reason: str | None) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish_reason}
        if self._call.is_chat:
            choice["delta"] = {"content": text}
        else:
            choice["text"] = text
        return {"choices": [choice]}

    def _event(self, content: dict[str, Any]) -> bytes:
        head = dict(self._head)
        if self._call.is_chat:
            head["object"] = "chat.completion.chunk"
        return b"data: " + json.dumps({**head, **content}).encode() + b"\n\n"
