"""Addresses, certificates and times that could never work are refused before anything is asked."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import certifi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepilot.deploy_bridge.errors import SettingsError
from gatepilot.deploy_bridge.metrics.client import PrometheusClient, PrometheusParams
from gatepilot.deploy_bridge.metrics.envoy_admin import EnvoyAdminParams

BAD_ADDRESSES = [
    "http://127.0.0.1:99999",
    "http://127.0.0.1:0",
    "http://127.0.0.1:x",
    "http://127.0.0.1:-1",
    "http://a b",
    "http://a\tb",
    "http://a\n",
    "http://[::1",
    "http://a..b",
    "http://-a",
    "http://127.0.0.1.5",
    "http://300.1.1.1",
    "http://a%00b",
    "http://",
    "http://:9090",
    "host:9090",
    "ftp://host",
    "",
]
SECRET = "s3cr3t"  # noqa: S105
HOLDING = [
    f"http://me:{SECRET}@host",
    f"http://{SECRET}@host",
    f"me:{SECRET}@host",
    f"http://host/?token={SECRET}",
    f"http://host/#{SECRET}",
    f"http://me:{SECRET}@host:99999",
]


@pytest.mark.parametrize("url", BAD_ADDRESSES + HOLDING)
def test_an_address_that_nobody_can_have_is_refused_with_its_key(url: str) -> None:
    with pytest.raises(SettingsError, match=r"^prometheus: url: expected http\(s\)://") as caught:
        PrometheusParams(url=url)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(SettingsError, match=r"^envoy_admin: url: expected http://") as caught:
        EnvoyAdminParams(url=url, cluster="llm")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("path", ["/quitquitquit", "/quitquitquit?", "/?", "/x/", "#a"])
def test_envoy_s_admin_interface_has_no_path(path: str) -> None:
    with pytest.raises(SettingsError, match=r"^envoy_admin: url: "):
        EnvoyAdminParams(url=f"http://127.0.0.1:9901{path}", cluster="llm")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9090",
        "http://localhost/",
        "http://prometheus_main-1.monitoring.svc:65535/",
        "http://[::1]:9090",
        "http://host.example.",
    ],
)
def test_good_addresses_are_taken(url: str) -> None:
    PrometheusParams(url=url)
    PrometheusParams(url=f"{url.rstrip('/')}/below/a/path")
    EnvoyAdminParams(url=url, cluster="llm")


@given(url=st.text(max_size=30) | st.text(max_size=30).map(lambda tail: f"http://h{tail}"))
def test_any_text_is_taken_or_refused_in_one_line(url: str) -> None:
    for make in (PrometheusParams, lambda url: EnvoyAdminParams(url=url, cluster="llm")):
        with suppress(SettingsError):
            make(url=url)
            continue
        with pytest.raises(SettingsError) as caught:
            make(url=url)
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_certificates_that_cannot_be_used_are_refused(scheme: str, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "no.pem").write_text("no certificate")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    cases = {
        "gone.pem": "cannot be read",
        ".": "cannot be read",
        "empty": "no certificate",
        "no.pem": "no certificate",
        "binary": "no certificate",
    }
    for name, words in cases.items():
        with pytest.raises(SettingsError, match=rf"^prometheus: ca_file: .*{words}"):
            PrometheusParams(url=f"{scheme}://host", ca_file=str(tmp_path / name))
    PrometheusParams(url=f"{scheme}://host", ca_file=certifi.where())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"url": "http://me:secret@host"}, "use bearer_token$"),
        ({"deadline_s": 0.0}, "expected more than 0"),
        ({"max_clock_skew_s": 1.0}, "expected more than deadline_s"),
    ],
)
def test_params_that_cannot_work_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        PrometheusParams(**({"url": "http://host"} | change))  # type: ignore[arg-type]


@pytest.mark.parametrize("token", ["sEc ReT", "sEc\nReT", "sEc\rReT", "sEc\x00ReT", "sEc\u00e9ReT"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(SettingsError, match=r"^prometheus: bearer_token holds ") as caught:
        PrometheusParams(url="http://host", bearer_token=token)
    assert "sEc" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "\n", "  "])
def test_a_token_of_nothing_is_refused(token: str) -> None:
    with pytest.raises(SettingsError, match=r"^prometheus: bearer_token is empty"):
        PrometheusParams(url="http://host", bearer_token=token)


def test_a_token_is_never_shown() -> None:
    made = PrometheusParams(url="http://host", bearer_token="sEcReT\n")  # noqa: S106
    assert made.token == "sEcReT"  # noqa: S105
    assert "sEcReT" not in repr(made)
    assert "sEcReT" not in repr(PrometheusClient(made))
