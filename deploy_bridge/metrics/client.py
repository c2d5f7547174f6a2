"""prometheus-api-client, made safe: bounded, single tries, and nothing it is told is dropped."""

from __future__ import annotations

import io
import json
import ssl
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from urllib3.util.retry import Retry

from ..errors import SettingsError
from .address import check_address
from .failures import failure_words
from .source import ProblemKind

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
        check_address(
            "prometheus: url",
            self.url,
            schemes=("http", "https"),
            may_have_path=True,
            instead="bearer_token",
        )
        self._check_token()
        if self.ca_file is not None:
            _check_certificates(self.ca_file)
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

    @property
    def token(self) -> str | None:
        """The bearer token alone: a file that holds one mostly ends in a newline."""
        return None if self.bearer_token is None else self.bearer_token.strip()

    def _check_token(self) -> None:
        """Refuses what no header can carry; the token is never shown."""
        token = self.token
        if token is None:
            return
        if not token:
            msg = "prometheus: bearer_token is empty, expected a token or no such key"
            raise SettingsError(msg)
        if not token.isascii() or not token.isprintable() or " " in token:
            msg = (
                "prometheus: bearer_token holds spaces, control or non-ASCII characters, "
                "expected the token alone"
            )
            raise SettingsError(msg)


def _check_certificates(file: str) -> None:
    """Refuses a file that no server could be checked against.

    Raises:
        SettingsError: It names the key and what would be right.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    wrong = ""
    try:
        with open(file, "rb"):  # OpenSSL's own error does not tell a folder from a bad file
            pass
        context.load_verify_locations(cafile=file)
    except ssl.SSLError:
        wrong = "holds no certificate"
    except (OSError, ValueError) as error:
        wrong = f"cannot be read ({getattr(error, 'strerror', None) or 'no file name'})"
    if not wrong and not context.cert_store_stats()["x509"]:
        wrong = "holds no certificate"
    if wrong:
        msg = f"prometheus: ca_file: {file} {wrong}, expected certificates in PEM"
        raise SettingsError(msg)


class NoAnswerError(Exception):
    """No answer, or one that is none.

    Args:
        message: One line for the operator.
        ends_read: Whether the other queries would meet the same.
        kind: `unreachable`, or `refused` where the query is wrong.
    """

    def __init__(
        self, message: str, *, ends_read: bool = True, kind: ProblemKind = "unreachable"
    ) -> None:
        super().__init__(message)
        self.ends_read = ends_read
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said to one query, not yet looked at."""

    result: object
    """`data.result`, whatever it is."""
    result_type: object
    """`data.resultType`, whatever it is."""
    warnings: tuple[str, ...]
    """Prometheus' doubts about its own answer."""
    infos: tuple[str, ...]
    """Its remarks on the query, e.g. a counter's unusual name; no reason to doubt."""


@dataclass(frozen=True, slots=True)
class _Notes:
    """What the library would drop."""

    status: int = 0
    """Of HTTP."""
    result_type: object = None
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
    error: str = ""
    """Why Prometheus refuses, in its own words."""
    body: str = ""
    """Beginning of an answer that is no JSON."""


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
        self._token = params.token
        if self._token is not None:
            session.headers["Authorization"] = f"Bearer {self._token}"
        self._place = urlsplit(params.url).netloc
        self._connect = PrometheusConnect(
            url=params.url.rstrip("/"), session=session, retry=Retry(total=0)
        )
        self._notes = _Notes()

    def ask(self, query: str, at_s: float | None) -> Answer:
        """Asks once.

        Args:
            query: PromQL.
            at_s: Instant of evaluation, seconds since the epoch; `None`: the server's now.

        Raises:
            NoAnswerError: Refused, silent, an error status, or not Prometheus' JSON. It quotes
                nothing that was sent.
        """
        self._notes = _Notes()
        params = {} if at_s is None else {"time": f"{at_s:.3f}"}
        try:
            result = self._connect.custom_query(
                query,
                params=params,
                timeout=self._timeout,  # type: ignore[arg-type]  # requests takes the pair
            )
        except NoAnswerError:
            raise
        except PrometheusApiClientException as error:
            raise self._refused() from error
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
        except (KeyError, TypeError, RecursionError) as error:
            msg = "JSON of another shape than Prometheus' query API"
            raise NoAnswerError(msg) from error
        except Exception as error:  # whatever it is: a tick never ends with the network's troubles
            msg = f"{self._place}: {failure_words(error)}"
            raise NoAnswerError(msg) from None  # its own text may quote the header with the token
        notes = self._notes
        return Answer(result, notes.result_type, notes.warnings, notes.infos)

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
            text = self._quoted(body[: 2 * _SHOWN_CHARACTERS].decode("utf-8", "replace"))
            self._notes = _Notes(status=response.status_code, body=text)
            return  # the library meets the same, or does not care for the body
        said = said if isinstance(said, dict) else {}
        data = said.get("data")
        self._notes = _Notes(
            status=response.status_code,
            result_type=data.get("resultType") if isinstance(data, dict) else None,
            warnings=self._texts(said.get("warnings")),
            infos=self._texts(said.get("infos")),
            error="; ".join(self._texts(said.get("error"))),
        )

    def _refused(self) -> NoAnswerError:
        notes = self._notes
        is_query = notes.status in _BAD_QUERY
        if is_query and notes.error:
            msg = f"Prometheus refuses the query: {notes.error}"
            return NoAnswerError(msg, ends_read=False, kind="refused")
        msg = f"HTTP Status Code {notes.status}"
        words = notes.error or notes.body
        return NoAnswerError(f"{msg}: {words}" if words else msg, ends_read=not is_query)

    def _texts(self, value: object) -> tuple[str, ...]:
        if not value:
            return ()
        items = value if isinstance(value, list) else [value]
        return tuple(self._quoted(str(item)) for item in items)

    def _quoted(self, text: str) -> str:
        """A server's own words: one line, and without the token where they echo it."""
        if self._token:
            text = text.replace(self._token, "***")
        line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
        return line if len(line) <= _SHOWN_CHARACTERS else f"{line[: _SHOWN_CHARACTERS - 3]}..."
