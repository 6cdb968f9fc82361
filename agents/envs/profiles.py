"""Browser profiles: cookies and the last address of a visit, independent of where an instance is served.

Two visits of a session use two instances, possibly on two machines. So cookie paths are stored relative to the
instance's root and are restored under the new instance's root.
"""

from __future__ import annotations

from collections.abc import Iterable
from http.cookiejar import Cookie, CookieJar
from urllib.parse import urlsplit

from eventlog.events.event import FrozenModel

HOST_WIDE = "//"
"""Path of a cookie that is sent to the whole host, whatever the instance."""


class StoredCookie(FrozenModel):
    """A cookie. `path` is from the instance's root; `expires` is in seconds since 1970, None for a session cookie."""

    name: str
    value: str
    path: str
    expires: int | None
    is_secure: bool


class Profile(FrozenModel):
    """State kept after a visit. `address` is the path of the last page, from the instance's root."""

    cookies: tuple[StoredCookie, ...] = ()
    address: str = "/"

    def to_bytes(self) -> bytes:
        """The profile as JSON."""
        return self.model_dump_json().encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> Profile:
        """Parse a profile written by `to_bytes`. Raises ValueError."""
        return cls.model_validate_json(body)


EMPTY = Profile()
"""Profile of an unused browser."""


def cookies_in(jar: Iterable[Cookie], root: str) -> tuple[StoredCookie, ...]:
    """Cookies that would be sent to an instance with this root, by path and name."""
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
    domain = host if "." in host else f"{host}.local"  # the jar's name for a host without a dot
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
