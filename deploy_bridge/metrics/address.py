"""Addresses as a configuration gives them, refused at once where nobody could ever be reached."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from ..errors import SettingsError

_LABEL: Final = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?", re.ASCII)


def check_address(
    key: str, url: str, *, schemes: tuple[str, ...], may_have_path: bool, instead: str = ""
) -> None:
    """Refuses what is no address of a server. What may be a secret is not shown.

    Args:
        key: Where it stands in the configuration.
        url: The address.
        schemes: What it may begin with.
        may_have_path: Whether the server may be found below a path.
        instead: Key that a password or token belongs to, if there is one.

    Raises:
        SettingsError: It names the key and what would be right.
    """
    fault = _of_text(url, instead) or _of_parts(url, schemes, may_have_path=may_have_path)
    if fault:
        shape = "http(s)" if len(schemes) > 1 else schemes[0]
        msg = f"{key}: expected {shape}://host:port, {fault}"
        raise SettingsError(msg)


def _of_text(url: str, instead: str) -> str:
    """What is wrong with the text as a whole; nothing of such an address is ever shown."""
    if "@" in url:
        return "it holds a user or password" + (f"; use {instead}" if instead else "")
    if "?" in url or "#" in url:
        return "it holds a query or a fragment"
    if not url.isprintable() or any(letter.isspace() for letter in url):
        return "it holds spaces or control characters"
    return ""


def _of_parts(url: str, schemes: tuple[str, ...], *, may_have_path: bool) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return f"got {url!r}"
    if parts.scheme not in schemes or not parts.hostname:
        return f"got {url!r}"
    if not _is_host(parts.hostname):
        return f"{parts.hostname!r} is neither a host name nor an IP address"
    if not _is_port(parts):
        return f"its port is no number from 1 to 65535: {url!r}"
    is_bare = parts.path in ("", "/")
    return "" if is_bare or may_have_path else f"without a path, got {url!r}"


def _is_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        last = host.rstrip(".").rpartition(".")[2]
        return _HOST.fullmatch(host) is not None and not last.isdigit()
    return True
