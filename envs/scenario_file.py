"""Reading YAML and putting what is wrong with it into one line."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import yaml
from pydantic import ValidationError


class ScenarioError(ValueError):
    """A scenario that cannot be used: one line with file, key and what would be right."""


def read_yaml(path: Path) -> Any:  # noqa: ANN401
    """Reads a YAML file; a key that appears twice is an error.

    Raises:
        ScenarioError: The file is missing or is not YAML.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        if tree is not None:
            _check_keys_once(tree, path.name)
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


def _check_keys_once(node: yaml.Node, where: str) -> None:
    """Raises ScenarioError where a mapping has a key twice (YAML itself keeps the last)."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                line = key.start_mark.line + 1
                raise ScenarioError(f"{where}: line {line}: {key.value}: key appears twice")
            seen.add(key.value)
            _check_keys_once(value, where)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_keys_once(item, where)


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
    key = ".".join(str(part) for part in location)
    match problem["type"]:
        case "unexpected_keyword_argument":
            return f"{key}: unknown key; {_near_key(str(location[-1]), location[:-1], root)}"
        case "missing":
            return f"{key}: missing key"
        case "value_error":
            message = str(problem["ctx"]["error"])
            return f"{key}.{message}" if key else message
        case "dataclass_type":
            return f"{key}: {problem['input']!r} is not a mapping of keys and values"
        case _:
            wanted = problem["msg"].removeprefix("Input should be ")
            return f"{key}: {problem['input']!r} should be {wanted}"


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
