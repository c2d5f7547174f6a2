"""What a request means and what an answer looks like."""

import json
from typing import Any

import pytest

from gatepilot.experiments.testbed.openai_api import Call, RequestError, Wording, parse_call

MODEL = "tiny"


def chat(**more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"model": MODEL, "messages": [{"role": "user", "content": "one two three"}], **more}


def events(data: bytes) -> list[Any]:
    """The stream's events; each ends with an empty line."""
    assert data.endswith(b"\n\n")
    texts = [block.removeprefix(b"data: ") for block in data.strip().split(b"\n\n")]
    return ["[DONE]" if text == b"[DONE]" else json.loads(text) for text in texts]


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("one two  three\n", 3),
        ([{"type": "text", "text": "one two"}, {"type": "text", "text": "three"}], 3),
        ("", 1),
    ],
)
def test_a_chat_is_as_long_as_its_words(content: Any, tokens: int) -> None:  # noqa: ANN401
    body = chat(messages=[{"role": "user", "content": content}], max_tokens=7)
    call = parse_call(body, is_chat=True, model=MODEL)
    assert (call.prompt_tokens, call.output_tokens) == (tokens, 7)


def test_a_prompt_is_a_text_or_token_ids() -> None:
    assert parse_call({"prompt": "a b"}, is_chat=False, model=MODEL).prompt_tokens == 2
    assert parse_call({"prompt": [5, 6, 7]}, is_chat=False, model=MODEL).prompt_tokens == 3


def test_the_newer_name_of_the_limit_counts_first() -> None:
    body = chat(max_tokens=3, max_completion_tokens=5)
    assert parse_call(body, is_chat=True, model=MODEL).output_tokens == 5
    assert parse_call(chat(), is_chat=True, model=MODEL).output_tokens == 16


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "JSON object"),
        (chat(model="other"), "'other' does not exist"),
        (chat(max_tokens=0), "max_tokens: 0"),
        (chat(max_tokens=True), "max_tokens: True"),
        (chat(max_tokens="5"), "max_tokens: '5'"),
        ({"messages": []}, "at least one message"),
        ({"messages": ["hello"]}, "an object with a role"),
        ({"messages": [{"role": "user"}]}, "a text or a list"),
    ],
)
def test_what_is_refused(body: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(RequestError, match=message):
        parse_call(body, is_chat=True, model=MODEL)


def test_a_chat_stream_has_role_tokens_end_usage_and_done() -> None:
    call = Call(True, 3, 4, True, True)
    wording = Wording(call, answer_id="1", model=MODEL, created_s=5)
    data = wording.tokens(1, is_first=True, is_last=False)
    data += wording.tokens(3, is_first=False, is_last=True)
    role, *tokens, usage, done = events(data)
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [token["choices"][0]["delta"]["content"] for token in tokens] == [" token"] * 4
    assert [token["choices"][0]["finish_reason"] for token in tokens] == [None] * 3 + ["length"]
    assert {event["object"] for event in (role, *tokens, usage)} == {"chat.completion.chunk"}
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert done == "[DONE]"


def test_a_plain_stream_without_usage() -> None:
    wording = Wording(Call(False, 3, 1, True, False), answer_id="1", model=MODEL, created_s=5)
    token, done = events(wording.tokens(1, is_first=True, is_last=True))
    assert token["choices"] == [{"index": 0, "finish_reason": "length", "text": " token"}]
    assert (token["object"], done) == ("text_completion", "[DONE]")
