"""Reading YAML and putting what is wrong with it into one line."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import yaml
from pydantic import ValidationError

_MOST_CHARACTERS: Final = 1_000_000
"""Most characters of a file's values, each alias written out: a few lines can stand for millions
of them."""
_MOST_LEVELS: Final = 50
"""Most levels of mappings and lists."""
_TOO_DEEP: Final = f"nested deeper than {_MOST_LEVELS} levels"
_MOST_DIGITS: Final = 1000
"""Most digits of a whole number."""
_MOST_SHOWN: Final = 200
"""Most characters of a value in a message."""
_INTEGER_TAG: Final = "tag:yaml.org,2002:int"
_KEY_TAGS: Final = (
    *("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge", _INTEGER_TAG, "tag:yaml.org,2002:float"),
    *("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null"),
)
"""What can be a key in JSON, or is none."""


class ScenarioError(ValueError):
    """A scenario that cannot be used: one line with file, key and what would be right."""


def read_yaml(path: Path) -> Any:  # noqa: ANN401
    """Reads a YAML file; a key that appears twice is an error.

    Raises:
        ScenarioError: The file is missing, is not YAML, or holds what JSON cannot: one line.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        if tree is not None:
            _Tree(path.name).check(tree)
        return yaml.safe_load(text)
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path.name}: not UTF-8 text ({error.reason})") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ScenarioError(f"{path.name}: line {line}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path.name}: not YAML ({str(error).splitlines()[0]})") from error
    except RecursionError as error:
        raise ScenarioError(f"{path.name}: not YAML (nested too deeply)") from error
    except ScenarioError:
        raise
    except (TypeError, ValueError) as error:  # a list as a key, a date that is none
        raise ScenarioError(f"{path.name}: not YAML ({error})") from error


class _Tree:
    """A file's nodes, each looked at once however many aliases stand for it."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._sizes: dict[int, tuple[int, int] | None] = {}  # None: is being looked at

    def check(self, node: yaml.Node, key: str = "", level: int = 0) -> tuple[int, int]:
        """Characters and levels of a node at a level of the file, aliases written out.

        Raises:
            ScenarioError: A key twice, or what JSON cannot hold.
        """
        if isinstance(node, yaml.ScalarNode):
            self._check_scalar(node, key)
            return 1 + len(node.value), 0
        if level > _MOST_LEVELS:
            raise self._problem(node, key, _TOO_DEEP)
        if id(node) not in self._sizes:
            self._sizes[id(node)] = None
            children = self._children(node, key)
            parts = [self.check(child, name, level + 1) for child, name in children]
            length = 1 + sum(size for size, _ in parts)
            self._sizes[id(node)] = (length, 1 + max((depth for _, depth in parts), default=0))
        found = self._sizes[id(node)]
        if found is None:
            raise ScenarioError(
                f"{self._where}: not YAML (nested too deeply: {key} is an alias of what it is in)"
            )
        length, depth = found
        if length > _MOST_CHARACTERS:
            raise self._problem(node, key, f"more than {_MOST_CHARACTERS:,} characters")
        if level + depth > _MOST_LEVELS + 1:
            raise self._problem(node, key, _TOO_DEEP)
        return found

    def _children(self, node: yaml.Node, key: str) -> Iterator[tuple[yaml.Node, str]]:
        prefix = f"{key}." if key else ""
        if isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                yield item, f"{prefix}{i}"
            return
        seen: set[str] = set()
        for name, value in node.value:
            if not isinstance(name, yaml.ScalarNode):
                raise TypeError("unhashable: a list or a mapping as a key")
            if name.tag not in _KEY_TAGS:
                raise self._problem(name, key, "expected a text as key")
            shown = f"{prefix}{_plain(name.value)}"
            if name.value in seen:  # YAML itself keeps the last
                raise self._problem(name, _plain(name.value), "key appears twice")
            seen.add(name.value)
            yield name, shown
            yield value, shown

    def _check_scalar(self, node: yaml.ScalarNode, key: str) -> None:
        if not _is_text(node.value):
            raise self._problem(node, key, f"{node.value!r:.60} is not Unicode text")
        if node.tag == _INTEGER_TAG and len(node.value) > _MOST_DIGITS:
            raise self._problem(node, key, f"a number of more than {_MOST_DIGITS} digits")

    def _problem(self, node: yaml.Node, key: str, reason: str) -> ScenarioError:
        line = node.start_mark.line + 1
        return ScenarioError(f"{self._where}: line {line}: {f'{key}: ' if key else ''}{reason}")


def to_json(content: Mapping[str, Any]) -> str:
    """JSON text of parsed YAML: lists may become tuples there, texts never become numbers."""
    return json.dumps(content, default=str)


def first_problem(error: ValidationError, root: type) -> str:
    """The first problem as `key: what is wrong`, with a near key where one is unknown.

    Args:
        error: What pydantic found.
        root: The dataclass that was checked.
    """
    problem = min(error.errors(), key=lambda item: item["type"] != "unexpected_keyword_argument")
    location = problem["loc"]
    key = ".".join(_plain(str(part)) for part in location)
    match problem["type"]:
        case "unexpected_keyword_argument":
            line = f"{key}: unknown key; {_near_key(str(location[-1]), location[:-1], root)}"
        case "missing":
            line = f"{key}: missing key"
        case "value_error":
            message = str(problem["ctx"]["error"])
            line = f"{key}.{message}" if key else message
        case "dataclass_type":
            line = f"{key}: {_shown(problem['input'])} is not a mapping of keys and values"
        case "json_invalid":
            line = _unreadable(json.loads(problem["input"])) or "cannot be read as JSON"
        case _:
            wanted = problem["msg"].removeprefix("Input should be ")
            line = f"{key}: {_shown(problem['input'])} should be {wanted}"
    return " ".join(line.splitlines())


def _unreadable(content: Any, key: str = "") -> str | None:  # noqa: ANN401
    """Names the first text that is no Unicode: a surrogate out of a file name, say."""
    if isinstance(content, str):
        return None if _is_text(content) else f"{key}: {_shown(content)} is not Unicode text"
    if isinstance(content, list):
        content = dict(enumerate(content))
    items = content.items() if isinstance(content, dict) else ()
    parts = (_unreadable(value, f"{key}.{name}" if key else str(name)) for name, value in items)
    return next((part for part in parts if part is not None), None)


def _is_text(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _shown(value: object) -> str:
    """A value on one line, cut off where it is long."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _plain(key: str) -> str:
    """A key as it is, quoted where it would break the line."""
    return key if key.isprintable() else repr(key)


def _near_key(key: str, path: tuple[int | str, ...], root: type) -> str:
    """Names the near keys of the dataclass at a path, or all of them."""
    keys = [field.name for field in dataclasses.fields(_dataclass_at(path, root))]
    near = difflib.get_close_matches(key, keys, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(keys)}"


def _dataclass_at(path: tuple[int | str, ...], root: type) -> type:
    """Follows a path of keys and list positions down from a dataclass."""
    here = root
    for part in path:
        if isinstance(part, str):  # at a list position the item type is already taken
            hint = get_type_hints(here)[part]
            here = next(iter(get_args(hint)), hint)
    return here
