"""prometheus-api-client, made safe: bounded, single tries, and nothing it is told is dropped."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import requests
import urllib3
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from urllib3.util.retry import Retry

from ..errors import SettingsError

_MOST_BYTES: Final = 1 << 20
"""Size of an answer to one question; those of the catalogue have a few hundred bytes."""
_CHUNK_BYTES: Final = 1 << 14
_SHOWN_CHARACTERS: Final = 160
"""Of a server's own words in one line for the operator."""
_BAD_QUERY: Final = (400, 422)
"""Prometheus' status for a text it cannot parse or evaluate; other texts may still work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusParams:
    """Where Prometheus is, and how long it may take."""

    url: str
    """Address without user and password, e.g. `http://127.0.0.1:9090`."""
    connect_timeout_s: float = 1.0
    """Time for a connection to one address."""
    read_timeout_s: float = 2.0
    """Time without a single byte."""
    deadline_s: float = 3.0
    """Time for all queries of one read together."""
    max_clock_skew_s: float = 10.0
    """How far Prometheus' clock may be from the bridge's; more also means an answer out of a cache.
    Larger than `deadline_s`."""
    bearer_token: str | None = field(default=None, repr=False)
    """Sent as `Authorization`."""
    ca_file: str | None = None
    """Certificates that an `https` server is checked against, instead of the usual ones."""

    def __post_init__(self) -> None:
        """Refuses an address that is none and times that cannot be kept.

        Raises:
            SettingsError: It names the key and what would be right.
        """
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            msg = (
                "prometheus: url: expected http(s)://host:port without user and password, "
                f"got {self.url!r}"
                if not parts.username
                else "prometheus: url: holds a user or password; use bearer_token"
            )
            raise SettingsError(msg)
        for name in ("connect_timeout_s", "read_timeout_s", "deadline_s"):
            if not getattr(self, name) > 0:
                msg = f"prometheus: {name} is {getattr(self, name)}, expected more than 0"
                raise SettingsError(msg)
        if not self.max_clock_skew_s > self.deadline_s:
            msg = (
                f"prometheus: max_clock_skew_s is {self.max_clock_skew_s:g}, "
                f"expected more than deadline_s ({self.deadline_s:g})"
            )
            raise SettingsError(msg)


class NoAnswerError(Exception):
    """No answer, or one that is none.

    Args:
        message: One line for the operator.
        ends_read: Whether the other queries would meet the same.
    """

    def __init__(self, message: str, *, ends_read: bool = True) -> None:
        super().__init__(message)
        self.ends_read = ends_read


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said to one query, not yet looked at."""

    result: object
    """`data.result`, whatever it is."""
    warnings: tuple[str, ...]
    """Prometheus' doubts about its own answer."""
    infos: tuple[str, ...]
    """Its remarks on the query, e.g. a counter's unusual name; no reason to doubt."""


class PrometheusClient:
    """One session to one Prometheus, used by one thread at a time."""

    def __init__(self, params: PrometheusParams) -> None:
        self._timeout = (params.connect_timeout_s, params.read_timeout_s)
        session = requests.Session()
        session.trust_env = False  # no proxy and no .netrc by surprise, and half the time a query
        session.max_redirects = 0  # a login page is no Prometheus
        session.headers["Accept-Encoding"] = "identity"
        if params.ca_file is not None:
            session.verify = params.ca_file
        session.hooks["response"].append(self._take_notes)
        if params.bearer_token is not None:
            session.headers["Authorization"] = f"Bearer {params.bearer_token}"
        self._connect = PrometheusConnect(
            url=params.url.rstrip("/"), session=session, retry=Retry(total=0)
        )
        self._warnings: tuple[str, ...] = ()
        self._infos: tuple[str, ...] = ()

    def ask(self, query: str, at_s: float | None) -> Answer:
        """Asks once.

        Args:
            query: PromQL.
            at_s: Instant of evaluation, seconds since the epoch; `None`: the server's now.

        Raises:
            NoAnswerError: Refused, silent, an error status, or not Prometheus' JSON.
        """
        self._warnings = self._infos = ()
        params = {} if at_s is None else {"time": f"{at_s:.3f}"}
        try:
            result = self._connect.custom_query(
                query,
                params=params,
                timeout=self._timeout,  # type: ignore[arg-type]  # requests takes the pair
            )
        except PrometheusApiClientException as error:
            raise self._refused(error) from error
        except requests.Timeout as error:
            connect_s, read_s = self._timeout
            msg = f"no answer within {connect_s:g} s to connect and {read_s:g} s to read"
            raise NoAnswerError(msg) from error
        except requests.TooManyRedirects as error:
            msg = "redirected elsewhere; expected the address of Prometheus itself"
            raise NoAnswerError(msg) from error
        except requests.exceptions.JSONDecodeError as error:
            msg = "an answer that is no JSON; expected Prometheus' query API"
            raise NoAnswerError(msg) from error
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise NoAnswerError(_reason(error)) from error
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            msg = "JSON of another shape than Prometheus' query API"
            raise NoAnswerError(msg) from error
        return Answer(result, self._warnings, self._infos)

    def close(self) -> None:
        """Closes connections that are not in use."""
        self._connect.close()

    def _take_notes(self, response: requests.Response, *_: object, **__: object) -> None:
        """Reads the body up to a limit, and keeps what the library would drop."""
        body = bytearray()
        for chunk in response.raw.stream(_CHUNK_BYTES, decode_content=True):
            body += chunk
            if len(body) > _MOST_BYTES:
                response.close()
                msg = f"an answer of more than {_MOST_BYTES} bytes; expected a few hundred"
                raise NoAnswerError(msg)
        response.raw = io.BytesIO(body)  # where the library reads it from
        try:
            said: Any = json.loads(body)
        except (ValueError, RecursionError):
            return  # the library meets the same, or does not care for the body
        if isinstance(said, dict):
            self._warnings = _texts(said.get("warnings"))
            self._infos = _texts(said.get("infos"))

    def _refused(self, error: PrometheusApiClientException) -> NoAnswerError:
        """The library puts status and body into one text; the status stands at a fixed place."""
        text = _one_line(str(error))
        is_query = any(text.startswith(f"HTTP Status Code {status} ") for status in _BAD_QUERY)
        return NoAnswerError(text, ends_read=not is_query)


def _texts(value: object) -> tuple[str, ...]:
    if not value:
        return ()
    items = value if isinstance(value, list) else [value]
    return tuple(_one_line(str(item)) for item in items)


def _reason(error: Exception) -> str:
    """The cause without the words on retries, of which there are none, and on the query."""
    inner = error.args[0] if error.args else None
    return _one_line(str(getattr(inner, "reason", None) or error))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[: _SHOWN_CHARACTERS - 3]}..."
