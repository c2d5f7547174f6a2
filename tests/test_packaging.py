"""The list of packages, the data files and the version: what an editable install does not miss."""

import re
import tomllib
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
FLOORS = ("envs", "reward", "agents", "deploy_bridge", "experiments")
DATA_SUFFIXES = {".yaml", ".json", ".j2"}


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def package_name(folder: Path) -> str:
    return ".".join(["gatepilot", *folder.relative_to(ROOT).parts])


def data_files() -> list[Path]:
    found = (path for floor in FLOORS for path in (ROOT / floor).rglob("*"))
    return sorted(path for path in found if path.suffix in DATA_SUFFIXES)


def package_folder(path: Path) -> Path:
    """The nearest package that a file lies in: an artifact's folder is none."""
    return next(folder for folder in path.parents if (folder / "__init__.py").is_file())


def test_every_package_is_listed() -> None:
    listed = set(pyproject()["tool"]["setuptools"]["packages"])
    on_disk = {
        package_name(path.parent)
        for floor in FLOORS
        for path in (ROOT / floor).rglob("__init__.py")
    }
    assert on_disk | {"gatepilot"} == listed


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for floor in FLOORS for path in (ROOT / floor).rglob("*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_data_file_is_package_data() -> None:
    patterns = pyproject()["tool"]["setuptools"]["package-data"]
    forgotten = [
        str(path.relative_to(ROOT))
        for path in data_files()
        if not any(
            (where := path.relative_to(package_folder(path))).match(pattern)
            and len(where.parts) == len(Path(pattern).parts)
            for pattern in patterns.get(package_name(package_folder(path)), [])
        )
    ]
    assert forgotten == []


def test_every_data_file_is_installed() -> None:
    missing = [
        str(path.relative_to(ROOT))
        for path in data_files()
        if not resources.files(package_name(package_folder(path)))
        .joinpath(*path.relative_to(package_folder(path)).parts)
        .is_file()
    ]
    assert missing == []
    assert (resources.files("gatepilot") / "py.typed").is_file()


def test_installed_version_is_the_one_in_pyproject() -> None:
    assert metadata.version("gatepilot") == pyproject()["project"]["version"]


def test_changelog_opens_with_the_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", changelog, flags=re.MULTILINE)
    assert releases[0] == pyproject()["project"]["version"]


def test_root_package_stays_inert() -> None:
    # pytest executes this file under the checkout's name: a docstring and nothing else.
    text = (ROOT / "__init__.py").read_text(encoding="utf-8").strip()
    assert re.fullmatch(r'"""[^"]*"""', text)


def test_pre_commit_clones_nothing() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert {entry["repo"] for entry in config["repos"]} == {"local"}


@pytest.mark.parametrize("extra", ["train", "dev", None])
def test_every_direct_dependency_is_pinned(extra: str | None) -> None:
    project = pyproject()["project"]
    wanted = project["optional-dependencies"][extra] if extra else project["dependencies"]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {normal(line.split("==")[0]) for line in lines if "==" in line}
    assert {normal(name) for name in wanted} - pinned == set()


def normal(requirement: str) -> str:
    name = re.split(r"[<>=\[; ]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()
