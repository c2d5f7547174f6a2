"""NAME@ALIAS and NAME/VERSION, as MLflow takes them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from gatepilot.experiments.model_names import (
    ModelNameError,
    Reference,
    check_alias,
    check_name,
    parse_reference,
)
from gatepilot.experiments.tracking import RunStore

pytestmark = pytest.mark.timeout(60)  # making MLflow's database takes a busy machine ten seconds


def test_references() -> None:
    assert parse_reference("gateway@challenger") == Reference("gateway", None, "challenger")
    assert parse_reference("my gateway/12") == Reference("my gateway", "12", None)
    for text in ("gateway", "gateway/", "gateway/v1", "gateway/-1", "gateway/1/2", "/1", "", "@"):
        with pytest.raises(ModelNameError, match="expected"):
            parse_reference(text)
    with pytest.raises(ModelNameError, match="reserved"):
        parse_reference("gateway@latest")


def is_taken(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (ModelNameError, MlflowException):
        return False
    return True


def test_names_and_aliases_are_those_that_mlflow_takes(runs: Path) -> None:
    uri = RunStore(runs).uri
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    client.create_registered_model("known")
    client.create_model_version("known", "/nowhere")

    def point(alias: str) -> None:
        client.set_registered_model_alias("known", alias, "1")

    aliases = ("champion", "Champ-ion_2", "latest", "LATEST", "v1", "V22", "a b", "a/b", "a\n", "")
    for alias in aliases:
        ours = is_taken(lambda alias=alias: check_alias(alias))  # type: ignore[misc]
        theirs = is_taken(lambda alias=alias: point(alias))  # type: ignore[misc]
        assert ours <= theirs, alias
        assert ours == theirs or alias == "a\n", alias
    for name in ("gateway", "my gateway", "a.b-c_d", "a/b", "a:b", ""):
        ours = is_taken(lambda name=name: check_name(name))  # type: ignore[misc]
        theirs = is_taken(lambda name=name: client.create_registered_model(name))  # type: ignore[misc]
        assert ours == theirs, name
