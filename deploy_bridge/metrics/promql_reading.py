"""Which series a PromQL text reads and what it calls, by its tokens alone.

Whether the text is right is Prometheus' to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
    |(?P<range>\[[^\]]*\])
    |(?P<number>[0-9.][0-9A-Za-z_.]*)
    |(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_LABEL_LISTS: Final = ("by", "without", "on", "ignoring", "group_left", "group_right")
"""Words that a list of label names may follow."""
_WORDS: Final = ("and", "or", "unless", "atan2", "bool", "offset", "inf", "nan")
"""Names that are neither metrics nor functions."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function or aggregation that a text calls."""

    name: str
    """In lower case."""
    has_arguments: bool
    """Whether anything stands between its parentheses."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What a text reads and calls, in order."""

    selectors: tuple[str, ...]
    """Selectors as they stand in the text, with or without braces, each once."""
    calls: tuple[Call, ...]


class _Token(NamedTuple):
    kind: str | None
    text: str
    start: int
    end: int


def reads(text: str) -> Reads:
    """Finds selectors and calls."""
    tokens = [
        _Token(match.lastgroup, match[0], match.start(), match.end())
        for match in _TOKEN.finditer(text)
        if match.lastgroup != "space"
    ]
    selectors: list[str] = []
    calls: list[Call] = []
    at = 0
    while at < len(tokens):
        token, word = tokens[at], tokens[at].text.lower()
        at += 1
        following = _text(tokens, at).lower()
        if token.text == "{":  # a selector whose braces hold the name
            at = _past(tokens, at, "}")
            selectors.append(text[token.start : tokens[at - 1].end])
        elif token.kind != "name" or word in _WORDS:
            continue
        elif word in _LABEL_LISTS:
            at = _past(tokens, at, ")") if following == "(" else at
        elif following == "(":
            calls.append(Call(word, _text(tokens, at + 1) != ")"))
        elif following not in ("by", "without"):
            at = _past(tokens, at, "}") if following == "{" else at
            selectors.append(text[token.start : tokens[at - 1].end])
    return Reads(tuple(dict.fromkeys(selectors)), tuple(calls))


def _text(tokens: list[_Token], at: int) -> str:
    return tokens[at].text if at < len(tokens) else ""


def _past(tokens: list[_Token], at: int, closing: str) -> int:
    """Index behind the next closing token, or behind the last."""
    while at < len(tokens) and tokens[at].text != closing:
        at += 1
    return min(at + 1, len(tokens))
