"""What went wrong between two machines, in words of our own.

An exception's text may quote what was sent: headers with a token, addresses with a password. Only
its kind, numbers of the operating system and fixed texts of OpenSSL are shown.
"""

from __future__ import annotations

import http.client
import os
import socket
import ssl
from collections.abc import Iterator


def failure_words(error: BaseException) -> str:
    """One line for the operator that quotes nothing of the request or of the answer."""
    for one in _chain(error):
        words = _words(one)
        if words:
            return words
    return f"the request failed ({type(error).__name__})"


def _words(error: BaseException) -> str:
    words = ""
    match error:
        case ssl.SSLCertVerificationError():
            words = f"its certificate is not accepted: {_fixed(error, 'verify_message')}"
        case ssl.SSLError():
            words = f"no TLS connection ({_fixed(error, 'reason')})"
        case socket.gaierror():
            words = "its name is not known"
        case TimeoutError():
            words = "no answer in time"
        case http.client.RemoteDisconnected():
            words = "the connection was closed without an answer"
        case http.client.HTTPException():
            words = f"no HTTP answer ({type(error).__name__})"
        case OSError() if isinstance(error.errno, int):
            words = os.strerror(error.errno)
    return words


def _fixed(error: ssl.SSLError, name: str) -> str:
    """One of OpenSSL's fixed texts; the error has it only if OpenSSL made it."""
    return str(getattr(error, name, None) or type(error).__name__)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and all that it holds or comes from, the outermost first."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        inner = (*one.args, getattr(one, "reason", None), one.__cause__, one.__context__)
        waiting += [linked for linked in inner if isinstance(linked, BaseException)]
