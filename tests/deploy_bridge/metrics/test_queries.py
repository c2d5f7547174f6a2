"""The catalogue: complete, honest about what is missing, and nothing in it invents a value."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.deploy_bridge.errors import SettingsError
from gatepilot.deploy_bridge.metrics.catalogue_params import CatalogueParams
from gatepilot.deploy_bridge.metrics.promql_reading import reads
from gatepilot.deploy_bridge.metrics.queries import catalogue
from gatepilot.deploy_bridge.metrics.query import CRITICAL_FIELDS, Query, field_query
from gatepilot.envs.schema.fields import FIELD_INDEX
from gatepilot.envs.schema.fingerprint import Contract
from gatepilot.envs.schema.observation import ObservationSpec

from .peers import needs

CONTRACT = Contract(ObservationSpec())
KUBERNETES = CatalogueParams(cluster="llm", model="m", deployment="vllm")
SIZED = replace(KUBERNETES, weights_gib=15.0, kv_gib=20.0, vram_gib=45.0, rate_limit_prefix="shed")
ENVOY = CatalogueParams(cluster="llm", model="m", replica_counts="envoy", endpoint_label=None)
VARIANTS = {"kubernetes": KUBERNETES, "sized": SIZED, "envoy": ENVOY}


def text(params: CatalogueParams, name: str) -> str:
    return next(query.text for query in catalogue(params, CONTRACT) if query.name == name)


def test_every_field_that_can_be_had_live_is_asked_for() -> None:
    asked = {query.name for query in catalogue(KUBERNETES, CONTRACT) if query.kind == "field"}
    assert set(FIELD_INDEX) - asked == {"breaker_threshold", "time_of_day"}


def test_without_kubernetes_only_what_the_gateway_knows() -> None:
    asked = {query.name for query in catalogue(ENVOY, CONTRACT) if query.kind == "field"}
    assert set(FIELD_INDEX) - asked == {
        "breaker_threshold",
        "cpu_utilization",
        "replicas_draining",
        "replicas_starting",
        "time_of_day",
        "vram_utilization",
    }


@pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS)
def test_freshness_comes_first(params: CatalogueParams) -> None:
    kinds = [query.kind for query in catalogue(params, CONTRACT)]
    assert kinds == sorted(kinds, key=["freshness", "field"].index)
    assert kinds.count("freshness") == 4


@pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS)
def test_nothing_invents_a_zero(params: CatalogueParams) -> None:
    for query in catalogue(params, CONTRACT):
        assert "vector(" not in query.text
        for default in re.findall(r"\bor 0 \* ?(.{0,40})", query.text):
            assert "rate(" in default or "label_replace(" in default, query.name


@pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS)
def test_every_selector_is_narrowed(params: CatalogueParams) -> None:
    for query in catalogue(params, CONTRACT):
        assert query.selectors
        for selector in query.selectors:
            assert 'job="' in selector or 'namespace="' in selector, selector


def test_critical_fields_are_marked() -> None:
    critical = {
        q.name for q in catalogue(KUBERNETES, CONTRACT) if q.kind == "field" and q.is_critical
    }
    assert critical == set(CRITICAL_FIELDS) - {"breaker_threshold"}


def test_window_and_minimum_come_from_the_contract() -> None:
    contract = Contract(ObservationSpec(), window_s=90.0, minimum_samples=7)
    texts = {query.name: query.text for query in catalogue(KUBERNETES, contract)}
    assert "[90s]" in texts["ttft_p95_s"]
    assert texts["ttft_p95_s"].endswith(">= 7)")
    assert "[60s]" not in "".join(texts.values())


def test_a_window_of_less_than_four_scrapes_is_refused() -> None:
    catalogue(replace(KUBERNETES, scrape_interval_s=15.0), CONTRACT)
    with pytest.raises(SettingsError, match=r"fewer than 4 scrapes.* at most 15, it is 16"):
        catalogue(replace(KUBERNETES, scrape_interval_s=16.0), CONTRACT)


def test_freshness_allows_two_scrapes_and_a_second() -> None:
    ages = [q for q in catalogue(KUBERNETES, CONTRACT) if q.name.endswith("age_s")]
    assert [(q.low, q.high) for q in ages] == [(-11.0, 11.0)] * 2


def test_label_values_are_quoted() -> None:
    params = replace(KUBERNETES, model='a"}) + 1 #', cluster="b\\n")
    query = next(q for q in catalogue(params, CONTRACT) if q.name == "running")
    assert query.selectors == (query.text.removeprefix("sum(").removesuffix(")"),)
    assert json.dumps(params.model) in query.text
    assert '"b\\\\n"' in text(params, "replicas_ejected")


def test_overrides_replace_and_disabled_leaves_out() -> None:
    params = replace(KUBERNETES, overrides={"running": "sum(x{})"}, disabled=("waiting",))
    assert text(params, "running") == "sum(x{})"
    assert "waiting" not in {query.name for query in catalogue(params, CONTRACT)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"deployment": None}, "deployment is needed"),
        ({"cluster": ""}, "cluster is empty"),
        ({"weights_gib": 15.0}, "expected all three"),
        ({"weights_gib": 1.0, "kv_gib": 1.0, "vram_gib": 0.0}, "expected all three"),
        ({"scrape_interval_s": 0.0}, "expected more than 0"),
        ({"request_volume": 0}, "expected 1 or more"),
        ({"overrides": {"nonsense": "x"}}, "'nonsense' is no field"),
        ({"disabled": ("nonsense",)}, "'nonsense' is no field"),
        ({"disabled": ("request_rate_rps",)}, "nothing is ever decided"),
        ({"overrides": {"time_of_day": "x"}}, "missing in training"),
    ],
)
def test_what_cannot_be_turned_into_queries_is_refused(
    change: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        replace(KUBERNETES, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("invented", "named"),
    [
        ("sum(x) or vector(0)", r"vector\(\.\.\.\)"),
        ("x OR vector (0)", r"vector\(\.\.\.\)"),
        ("x or on() vector(0)", r"vector\(\.\.\.\)"),
        ("x or (vector(0))", r"vector\(\.\.\.\)"),
        ("x or # a comment\n sum by (a) (vector(0))", r"vector\(\.\.\.\)"),
        ("vector(0)", r"vector\(\.\.\.\)"),
        ("absent(x)", r"absent\(\.\.\.\)"),
        ("sum(x) or 0*absent(x)", r"absent\(\.\.\.\)"),
        ("x or 0 * absent_over_time(x[5m])", r"absent_over_time\(\.\.\.\)"),
        ("x or 0 * hour()", r"hour\(\)"),
        ("1", "names no metric"),
        ("", "names no metric"),
        ("time()", "names no metric"),
        ("NaN", "names no metric"),
        ("1e3 - -0x1f ^ Inf", "names no metric"),
        ('"a_metric"', "names no metric"),
    ],
)
def test_an_override_that_invents_a_value_is_refused(invented: str, named: str) -> None:
    with pytest.raises(SettingsError, match=rf"overrides: running: .*{named}.* invents a value"):
        field_query("running", invented)
    with pytest.raises(SettingsError, match="overrides: running"):
        catalogue(replace(KUBERNETES, overrides={"running": invented}), CONTRACT)


@pytest.mark.parametrize(
    "honest",
    [
        'sum(x{vector="vector(0)"})',
        "vector_size",
        'sum(x{a="absent(x)"}) # or vector(0)',
        "sum(x) or 0 * sum(rate(y[1m]))",
        '{__name__="x"}',
        "hour(x)",
    ],
)
def test_words_that_only_look_so_are_taken(honest: str) -> None:
    assert field_query("running", honest).text == honest


@pytest.mark.parametrize(
    ("text", "selectors"),
    [
        (r'sum(a:b{x="}\"{",y=~"[}]"}) + c{}', (r'a:b{x="}\"{",y=~"[}]"}', "c{}")),
        ("sum(vllm:num_request_running)", ("vllm:num_request_running",)),
        (
            "sum by (job, instance) (rate(x_total[5m:1m])) / on(job) group_left(pod) y",
            ("x_total", "y"),
        ),
        ("sum(x offset 5m) without (a) > bool 1e3", ("x",)),
        ("max without(a) (x @ end()) and x unless z{}", ("x", "z{}")),
        ("x {a='b'} + `text` + {__name__='y'}", ("x {a='b'}", "{__name__='y'}")),
        ("x{", ("x{",)),
        ("time() - 5", ()),
    ],
)
def test_selectors_are_found_with_and_without_braces(text: str, selectors: tuple[str, ...]) -> None:
    assert reads(text).selectors == selectors


@given(text=st.text(alphabet="ab_:(){}[]\"'`,=~ \n#0.5+-or by", max_size=40))
def test_reading_never_fails_and_finds_what_stands_there(text: str) -> None:
    for selector in reads(text).selectors:
        assert selector
        assert selector in text


def test_shares_end_at_one_and_other_fields_are_open() -> None:
    ranges = {query.name: (query.low, query.high) for query in catalogue(SIZED, CONTRACT)}
    assert ranges["error_rate"] == (0.0, 1.0)
    assert ranges["request_rate_rps"] == (0.0, float("inf"))


@pytest.mark.live
@pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS)
def test_promtool_accepts_every_query(params: CatalogueParams, tmp_path: Path) -> None:
    queries: tuple[Query, ...] = catalogue(params, CONTRACT)
    rules = [{"record": f"q:{query.name}", "expr": query.text} for query in queries]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "catalogue", "rules": rules}]}))
    done = subprocess.run(  # noqa: S603
        [needs("promtool"), "check", "rules", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(queries)} rules found" in done.stdout
