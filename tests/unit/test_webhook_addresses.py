"""Which addresses a webhook may reach, and what is looked up is what is connected to."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.webhooks.addresses import check_url, find_target, may_reach, read_networks
from api.webhooks.errors import AddressRefused, BadNetworks, BadWebhookUrl

INWARDS = (
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",  # noqa: S104 an address to refuse
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fc00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
)


@pytest.mark.parametrize("address", INWARDS)
def test_what_is_not_public_is_refused_unless_it_is_allowed(address: str) -> None:
    assert not may_reach(ip_address(address), ())
    assert not may_reach(ip_address(address), read_networks("198.51.100.0/24"))


def test_public_addresses_and_allowed_networks_are_reached() -> None:
    assert may_reach(ip_address("1.1.1.1"), ())
    assert may_reach(ip_address("2606:4700::1111"), ())
    assert may_reach(ip_address("10.1.2.3"), read_networks("10.1.0.0/16, ::1"))
    assert may_reach(ip_address("::1"), read_networks("10.1.0.0/16, ::1"))
    assert not may_reach(ip_address("10.2.2.3"), read_networks("10.1.0.0/16"))


@given(st.ip_addresses())
def test_no_private_or_link_local_address_is_ever_reached(address: Any) -> None:
    plain = getattr(address, "ipv4_mapped", None) or address
    if plain.is_private or plain.is_link_local or plain.is_loopback or plain.is_multicast:
        assert not may_reach(address, ())


def test_networks_that_cannot_be_read_are_named() -> None:
    with pytest.raises(BadNetworks, match="FLYWHEEL_WEBHOOK_NETWORKS is"):
        read_networks("10.1.2.3/8")


WRONG_URLS = ("https://x/?a=1", "https://x/#a", "https://u@x/", "gopher://x/", "https://", "https://x/\r\nHost: y")


@pytest.mark.parametrize("url", WRONG_URLS)
def test_a_url_that_would_hide_a_secret_or_is_none_is_refused(url: str) -> None:
    with pytest.raises(BadWebhookUrl):
        check_url(url)


def lookup(monkeypatch: pytest.MonkeyPatch, *found: str) -> None:
    async def answer(_host: str, port: int, **_options: Any) -> list[Any]:
        return [(0, 0, 0, "", (each, port)) for each in found]

    monkeypatch.setattr(anyio, "getaddrinfo", answer)


def test_the_connection_goes_to_the_address_that_was_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    lookup(monkeypatch, "1.1.1.1")
    target = anyio.run(find_target, "https://hooks.example/a", ())
    assert (target.url, target.host_header) == ("https://1.1.1.1:443/a", "hooks.example")
    lookup(monkeypatch, "2606:4700::1111")
    assert anyio.run(find_target, "https://hooks.example:8443/a", ()).url == "https://[2606:4700::1111]:8443/a"


@pytest.mark.parametrize("found", [("10.0.0.1",), ("1.1.1.1", "127.0.0.1"), ("fe80::1%eth0",)])
def test_a_name_that_leads_inwards_is_refused_whatever_else_it_leads_to(
    monkeypatch: pytest.MonkeyPatch, found: tuple[str, ...]
) -> None:
    lookup(monkeypatch, *found)
    with pytest.raises(AddressRefused, match="it is not public"):
        anyio.run(find_target, "https://hooks.example/", ())


def test_without_tls_only_allowed_networks_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    lookup(monkeypatch, "1.1.1.1")
    with pytest.raises(AddressRefused, match="without TLS"):
        anyio.run(find_target, "http://hooks.example/", ())
    assert anyio.run(find_target, "http://hooks.example/", read_networks("1.1.1.1")).port == 80
