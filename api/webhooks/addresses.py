"""Which addresses a webhook may reach: public ones over TLS, and the networks that a setting names."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

import anyio

from .errors import AddressRefused, BadNetworks, BadWebhookUrl

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_TRANSLATED: Final = tuple(map(ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))
"""IPv6 networks whose addresses hold an IPv4 address that a gateway may lead to."""


@dataclass(frozen=True, slots=True)
class ReceiverPlace:
    """An address that was looked up and may be reached; the connection goes to `ip`, whatever the name means later."""

    ip: Address
    host: str
    port: int
    is_tls: bool
    path: str

    @property
    def url(self) -> str:
        """The URL with the address in place of the name."""
        place = f"[{self.ip}]" if self.ip.version == 6 else str(self.ip)  # noqa: PLR2004 the version of the protocol
        return f"{'https' if self.is_tls else 'http'}://{place}:{self.port}{self.path}"

    @property
    def host_header(self) -> str:
        """The Host header, as the receiver knows itself."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.is_tls else 80
        return name if self.port == usual else f"{name}:{self.port}"


@cache
def read_networks(given: str | None) -> tuple[Network, ...]:
    """Networks from a list such as `10.1.0.0/16, 127.0.0.1`. Raises BadNetworks."""
    try:
        return tuple(ip_network(part.strip()) for part in (given or "").split(",") if part.strip())
    except ValueError as error:
        raise BadNetworks(actual=given, fault=str(error)) from error


def check_url(url: str) -> None:
    """Raise BadWebhookUrl for a URL with user, password, query or fragment, without a host, or of another scheme."""
    try:
        parts = urlsplit(url)
        is_fit = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_fit = False
    if not is_fit or "@" in parts.netloc or parts.query or parts.fragment or not url.isascii() or not url.isprintable():
        raise BadWebhookUrl(actual=url)


def may_reach(address: Address, allowed: Sequence[Network]) -> bool:
    """True for a public address, and for one in an allowed network."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    plain: Address = address if mapped is None else mapped
    if any(plain in network for network in allowed if network.version == plain.version):
        return True
    is_translated = any(plain in network for network in _TRANSLATED if network.version == plain.version)
    return plain.is_global and not plain.is_multicast and not is_translated


async def find_target(url: str, allowed: Sequence[Network]) -> ReceiverPlace:
    """Look a URL up, once. Raises AddressRefused if any of its addresses may not be reached, BadWebhookUrl, OSError.

    Without TLS only allowed networks are reached, because anybody on the way could read the message.
    """
    check_url(url)
    parts = urlsplit(url)
    is_tls, host = parts.scheme == "https", str(parts.hostname)
    port = parts.port or (443 if is_tls else 80)
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [ip_address(str(place[0]).partition("%")[0]) for *_, place in found]
    for address in addresses:
        if not may_reach(address, allowed):
            raise AddressRefused(host=host, actual=str(address), why="it is not public")
        if not is_tls and not any(address in each for each in allowed if each.version == address.version):
            raise AddressRefused(host=host, actual=str(address), why="it is public and would be reached without TLS")
    return ReceiverPlace(addresses[0], host, port, is_tls, parts.path or "/")
