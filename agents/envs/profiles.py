"""What a browser would keep between two visits: cookies and the last address, apart from where an instance is served.

Two visits of a session are to two instances, perhaps on two machines. So cookies of a path are kept by their path from
the instance's root, and are put back at the new one's.
"""

from __future__ import annotations

from collections.abc import Iterable
from http.cookiejar import Cookie, CookieJar
from urllib.parse import urlsplit

from eventlog.events.event import FrozenModel

HOST_WIDE = "//"
"""The path of a cookie that its host gets whatever the instance."""


class StoredCookie(FrozenModel):
    """A cookie. `path` is from the instance's root; `expires` is in seconds since 1970, None as long as the session."""

    name: str
    value: str
    path: str
    expires: int | None
    is_secure: bool


class Profile(FrozenModel):
    """What a visit leaves behind. `address` is the path, from the instance's root, of the page it stood on last."""

    cookies: tuple[StoredCookie, ...] = ()
    address: str = "/"

    def to_bytes(self) -> bytes:
        """As JSON."""
        return self.model_dump_json().encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> Profile:
        """The profile that was written so. Raises ValueError."""
        return cls.model_validate_json(body)


EMPTY = Profile()
"""A browser that was never used."""


def cookies_in(jar: Iterable[Cookie], root: str) -> tuple[StoredCookie, ...]:
    """The cookies that an instance with this root would be sent, by path and name."""
    place = urlsplit(root)
    host, base = place.hostname or "", place.path
    found = (
        StoredCookie(
            name=cookie.name,
            value=cookie.value or "",
            path="/" + cookie.path.removeprefix(base) if _is_within(cookie.path, base) else HOST_WIDE,
            expires=None if cookie.expires is None else int(cookie.expires),
            is_secure=cookie.secure,
        )
        for cookie in jar
        if _host_of(cookie) == host and (_is_within(cookie.path, base) or base.startswith(cookie.path))
    )
    return tuple(sorted(found, key=lambda kept: (kept.path, kept.name)))


def put_cookies(jar: CookieJar, root: str, kept: Iterable[StoredCookie]) -> None:
    """Put cookies into the jar of a visit to the instance with this root."""
    place = urlsplit(root)
    for each in kept:
        path = "/" if each.path == HOST_WIDE else place.path + each.path.removeprefix("/")
        jar.set_cookie(_cookie(each, place.hostname or "", path))


def _is_within(path: str, base: str) -> bool:
    return path.startswith(base) or path + "/" == base


def _host_of(cookie: Cookie) -> str:
    return cookie.domain.removeprefix(".").removesuffix(".local")


def _cookie(kept: StoredCookie, host: str, path: str) -> Cookie:
    domain = host if "." in host else f"{host}.local"  # as the jar names a host without a dot
    return Cookie(
        version=0,
        name=kept.name,
        value=kept.value,
        port=None,
        port_specified=False,
        domain=domain,
        domain_specified=False,
        domain_initial_dot=False,
        path=path,
        path_specified=True,
        secure=kept.is_secure,
        expires=kept.expires,
        discard=kept.expires is None,
        comment=None,
        comment_url=None,
        rest={},
    )
