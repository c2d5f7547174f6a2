"""What pydantic finds wrong with a configuration, in one plain line."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import ValidationError

from ..envs.scenario_file import first_problem

_WORDS: Final = {
    "bool_parsing": "should be true or false",
    "bool_type": "should be true or false",
    "dataclass_type": "should be keys and values",
    "dict_type": "should be keys and values",
    "extra_forbidden": "unknown key",
    "finite_number": "should be a finite number",
    "float_parsing": "should be a number",
    "float_type": "should be a number",
    "int_from_float": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_parsing_size": "should be a smaller number",
    "int_type": "should be a whole number",
    "invalid_key": "should have a text as key",
    "list_type": "should be a list",
    "mapping_type": "should be keys and values",
    "model_type": "should be keys and values",
    "path_type": "should be a path",
    "string_too_long": "is too long",
    "string_too_short": "is empty",
    "string_type": "should be a text",
    "too_short": "should hold more items",
    "tuple_type": "should be a list",
}
"""Kind of finding to our words, where pydantic's own speak of Python."""
_BY_KEY: Final = {"unexpected_keyword_argument", "missing"}
"""Kinds that `first_problem` says best: it knows the keys there are."""
_NAMES_KEY: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*( is |: )")
"""How a check of several keys begins where it names one: `min_threshold is 0, expected ...`."""

Finding = tuple[tuple[str, ...], str]
"""Keys from the outside in, and the line, which begins with them."""


def first_finding(error: ValidationError, root: type, *, is_shown: bool) -> Finding:
    """The first finding; an unknown key goes first, because others may follow from it.

    Args:
        error: What pydantic found.
        root: The class that was checked.
        is_shown: Whether the value may be shown; it may be a secret.
    """
    problem = min(error.errors(), key=lambda item: item["type"] != "unexpected_keyword_argument")
    keys = tuple(str(part) for part in problem["loc"])
    return keys, _line(problem, ".".join(keys), error, root, is_shown)


def names_key(said: str) -> bool:
    """Whether what a check says begins with a key, and so may be joined to an outer one."""
    return _NAMES_KEY.match(said) is not None


def _line(problem: Any, key: str, error: ValidationError, root: type, is_shown: bool) -> str:  # noqa: ANN401  # pydantic's own record
    kind = problem["type"]
    if kind in _BY_KEY:
        return first_problem(error, root)
    if kind == "value_error":
        said = str(problem["ctx"]["error"])
        return said if not key else f"{key}.{said}" if names_key(said) else f"{key}: {said}"
    if kind == "part":  # a check of a whole section that names the key inside
        return f"{key}.{problem['msg']}"
    words = _WORDS.get(kind, problem["msg"].removeprefix("Input "))
    return f"{key}: {problem['input']!r} {words}" if is_shown else f"{key}: {words}"
