"""A visit to one instance over plain HTTP, without scripts: opens pages, sends forms, never leaves the instance.

Addresses in plans are paths from the instance's root (`/boats`), so plans do not depend on where an instance is served.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx2

from ...tls import tls_context
from ..errors import ContractBroken, EnvironmentDown
from ..profiles import EMPTY, Profile, cookies_in, put_cookies
from .pages import Absent, Page, enclosing_form, join_address, page_at, parse_page
from .wire import UNAVAILABLE


class Session:
    """One agent's visit to one instance; keeps cookies, and can continue from the profile of an earlier visit.

    `headers` are sent with every request; preview proxies need them.
    Raises EnvironmentDown if the site does not answer, and ContractBroken if it leads out of the instance.
    """

    def __init__(
        self,
        root: str,
        *,
        timeout_s: float = 10.0,
        headers: Mapping[str, str] | None = None,
        transport: httpx2.BaseTransport | None = None,
        profile: Profile = EMPTY,
    ) -> None:
        self.root = root_address(root)
        self._client = httpx2.Client(
            headers=headers,
            timeout=timeout_s,
            follow_redirects=True,
            transport=transport or httpx2.HTTPTransport(verify=tls_context()),
            trust_env=False,
            max_redirects=5,
            event_hooks={"request": [self._stay]},
        )
        self._timeout_s = timeout_s
        self._address = profile.address
        put_cookies(self._client.cookies.jar, self.root, profile.cookies)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def profile(self) -> Profile:
        """Profile for the next visit with the same state key: cookies, and the address of the current page."""
        return Profile(cookies=cookies_in(self._client.cookies.jar, self.root), address=self._address)

    def open(self, path: str) -> Page:
        """Open a path from the instance's root. Raises Absent if it is not an address inside the instance."""
        return self._request("GET", address_of(self.root, path))

    def submit(self, page: Page, label: str) -> Page:
        """Send the form that the button with this caption belongs to. Raises Absent."""
        button = page.button(label)
        form = enclosing_form(button)
        values = [(name, value) for name, value in form.form_values() if name]
        if button.get("name"):
            values.append((button.get("name"), button.get("value") or ""))
        target = join_address(page.address, form.get("action") or page.address)
        if (form.get("method") or "get").lower() == "post":
            return self._request("POST", target, data=_group_values(values))
        return self._request("GET", target, params=values)

    def _request(self, method: str, address: str, **content: Any) -> Page:
        try:
            answer = self._client.request(method, address, **content)
        except httpx2.HTTPError as problem:
            raise EnvironmentDown(
                url=self.root, operation=method, actual=f"{type(problem).__name__} {problem}", timeout_s=self._timeout_s
            ) from problem
        if answer.status_code in UNAVAILABLE:
            actual = f"status {answer.status_code}"
            raise EnvironmentDown(url=self.root, operation=method, actual=actual, timeout_s=self._timeout_s)
        document = parse_page(answer.content, answer.charset_encoding)
        page = page_at(self.root, str(answer.url), answer.status_code, document)
        self._address = page.path
        return page

    def _stay(self, request: httpx2.Request) -> None:
        if not is_inside(self.root, request.url):
            raise leads_out(self.root, request.method, str(request.url))


def root_address(address: str) -> str:
    """Normalized root address of an instance, with a slash at its end."""
    return str(httpx2.URL(address if address.endswith("/") else address + "/"))


def address_of(root: str, path: str) -> str:
    """Address of a path from an instance's root. Raises Absent if it is not an address inside the instance."""
    try:
        address = httpx2.URL(root + path.lstrip("/"))
    except httpx2.InvalidURL as problem:
        raise Absent("no_such_link", path) from problem
    if not is_inside(root, address):
        raise Absent("no_such_link", path)
    return str(address)


def is_inside(root: str, address: httpx2.URL) -> bool:
    """True if an address lies inside the instance with this root."""
    bare = str(address.copy_with(query=None, fragment=None))
    return bare.startswith(root) or bare + "/" == root


def leads_out(root: str, operation: str, address: str) -> ContractBroken:
    """Error for a site that sends its agent out of the instance."""
    return ContractBroken(
        url=root,
        operation=operation,
        actual=f"it leads to {address}",
        expected="every link, form and redirect to stay in the instance",
    )


def _group_values(values: list[tuple[str, str]]) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for name, value in values:
        fields.setdefault(name, []).append(value)
    return fields
