"""The TLS context that all HTTP clients of a process share."""

from __future__ import annotations

import ssl
from functools import cache

import httpx2


@cache
def tls_context() -> ssl.SSLContext:
    """The trusted certificates. Loading them takes 30 ms, longer than a whole visit of a site."""
    return httpx2.create_ssl_context(trust_env=False)
