"""Pages as an agent meets them: opened, read, filled by visible label, sent. Plain HTTP, no scripts.

A session lives inside one instance. Addresses in plans are paths from the instance's root (`/boats`), so a plan says
nothing of where an instance is served.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any, Final, Literal, Self
from urllib.parse import urljoin, urlsplit

import httpx2
from lxml import etree, html

from .errors import ContractBroken, EnvironmentDown
from .profiles import EMPTY, Profile, cookies_in, put_cookies
from .wire import UNAVAILABLE

LONGEST_TEXT: Final = 4_000
_SPACE = re.compile(r"\s+")

Problem = Literal["no_such_link", "no_such_field", "no_such_option"]


class Absent(Exception):
    """The page shows no such control; `problem` says which kind was looked for."""

    def __init__(self, problem: Problem, label: str) -> None:
        self.problem = problem
        super().__init__(f"{problem}: {label}")


@dataclass(frozen=True, slots=True)
class Link:
    """A link as a person sees it, and where it leads: a path from the instance's root."""

    text: str
    path: str


@dataclass(frozen=True, slots=True)
class Page:
    """An answer of the site: status, path from the instance's root, and the parsed document (filled in place)."""

    status: int
    path: str
    address: str
    root: str
    document: html.HtmlElement

    def links(self) -> tuple[Link, ...]:
        """All links that stay inside the instance, in order."""
        return tuple(link for _, link in self.anchors())

    def anchors(self) -> Iterator[tuple[Any, Link]]:
        """The same links with their elements."""
        for element in self.document.iter("a"):
            target = _joined(self.address, element.get("href") or "")
            if element.get("href") and target.startswith(self.root):
                yield element, Link(text_of(element), "/" + target.removeprefix(self.root))

    def link(self, label: str) -> Link:
        """The link with this text, else the first whose text contains it. Raises Absent."""
        return self._anchor(label)[1]

    def anchor(self, label: str) -> Any:
        """The element of such a link. Raises Absent."""
        return self._anchor(label)[0]

    def _anchor(self, label: str) -> tuple[Any, Link]:
        wanted = plain(label)
        shown = [pair for pair in self.anchors() if pair[1].text]
        exact = [pair for pair in shown if plain(pair[1].text) == wanted]
        found = exact or [pair for pair in shown if wanted in plain(pair[1].text)]
        if not found:
            raise Absent("no_such_link", label)
        return found[0]

    def field(self, label: str) -> Any:
        """The form control that a label belongs to. Raises Absent."""
        for element in self.document.iter("label"):
            if plain(caption_of(element)) == plain(label):
                control = self.control_of(element)
                if control is not None:
                    return control
        raise Absent("no_such_field", label)

    def control_of(self, label: html.HtmlElement) -> Any:
        """The control that a label element belongs to; None where it has none."""
        target = label.get("for")
        return label.find(".//*[@name]") if target is None else self.document.get_element_by_id(target, None)

    def button(self, label: str) -> Any:
        """The button with this caption, inside its form. Raises Absent."""
        for element in self.document.iter("button", "input"):
            caption = text_of(element) if element.tag == "button" else str(element.get("value") or "")
            is_button = element.tag == "button" or element.get("type") == "submit"
            if is_button and plain(caption) == plain(label) and form_of(element) is not None:
                return element
        raise Absent("no_such_field", label)

    def fillable(self, label: str) -> Any:
        """The text field that a label belongs to. Raises Absent."""
        control = self.field(label)
        if control.tag not in {"input", "textarea"}:
            raise Absent("no_such_field", label)
        return control

    def fill(self, label: str, value: str) -> None:
        """Write into a text field. Raises Absent."""
        control = self.fillable(label)
        if control.tag == "textarea":
            control.value = value
        else:
            control.set("value", value)

    def option(self, label: str, option: str) -> tuple[Any, int]:
        """The list that a label belongs to, and the place of the option with this visible text. Raises Absent."""
        control = self.field(label)
        if control.tag != "select":
            raise Absent("no_such_field", label)
        for place, element in enumerate(control.iter("option")):
            if plain(text_of(element)) == plain(option):
                return control, place
        raise Absent("no_such_option", option)

    def choose(self, label: str, option: str) -> None:
        """Choose an option by its visible text. Raises Absent."""
        control, chosen = self.option(label, option)
        for place, element in enumerate(control.iter("option")):
            element.attrib.pop("selected", None)
            if place == chosen:
                element.set("selected", "selected")

    def text(self) -> str:
        """What the page says, one line a block, without addresses: the same for the same seed in every instance."""
        return "\n".join(_lines(self.document))[:LONGEST_TEXT]


class Session:
    """One agent's visit to one instance; keeps cookies, and can go on with the profile of a visit before it.

    `headers` go on every call; preview proxies want them.
    Raises EnvironmentDown where the site does not answer, and ContractBroken where it leads out of the instance.
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
        self.root = rooted(root)
        self._client = httpx2.Client(
            headers=headers,
            timeout=timeout_s,
            follow_redirects=True,
            transport=transport or httpx2.HTTPTransport(verify=_trusted()),
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
        """What the visit would leave to the next one of its state key: cookies, and the page it stands on."""
        return Profile(cookies=cookies_in(self._client.cookies.jar, self.root), address=self._address)

    def open(self, path: str) -> Page:
        """Open a path from the instance's root. Raises Absent for one that is no address in the instance."""
        return self._request("GET", address_of(self.root, path))

    def submit(self, page: Page, label: str) -> Page:
        """Send the form that the button with this caption belongs to. Raises Absent."""
        button = page.button(label)
        form = form_of(button)
        values = [(name, value) for name, value in form.form_values() if name]
        if button.get("name"):
            values.append((button.get("name"), button.get("value") or ""))
        target = _joined(page.address, form.get("action") or page.address)
        if (form.get("method") or "get").lower() == "post":
            return self._request("POST", target, data=_grouped(values))
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
        document = parsed(answer.content, answer.charset_encoding)
        page = page_at(self.root, str(answer.url), answer.status_code, document)
        self._address = page.path
        return page

    def _stay(self, request: httpx2.Request) -> None:
        if not is_inside(self.root, request.url):
            raise leads_out(self.root, request.method, str(request.url))


@cache
def _trusted() -> ssl.SSLContext:
    """Reading the trusted certificates takes longer than a whole visit, so it is done once."""
    return httpx2.create_ssl_context(trust_env=False)


def rooted(address: str) -> str:
    """An instance's address as its pages' addresses begin: spelt one way, with a slash at its end."""
    return str(httpx2.URL(address if address.endswith("/") else address + "/"))


def address_of(root: str, path: str) -> str:
    """The address of a path from an instance's root. Raises Absent for one that is no address in the instance."""
    try:
        address = httpx2.URL(root + path.lstrip("/"))
    except httpx2.InvalidURL as problem:
        raise Absent("no_such_link", path) from problem
    if not is_inside(root, address):
        raise Absent("no_such_link", path)
    return str(address)


def is_inside(root: str, address: httpx2.URL) -> bool:
    """Whether an address lies in the instance with this root."""
    bare = str(address.copy_with(query=None, fragment=None))
    return bare.startswith(root) or bare + "/" == root


def leads_out(root: str, operation: str, address: str) -> ContractBroken:
    """What is raised where a site sends its agent out of the instance."""
    return ContractBroken(
        url=root,
        operation=operation,
        actual=f"it leads to {address}",
        expected="every link, form and redirect to stay in the instance",
    )


def page_at(root: str, address: str, status: int, document: html.HtmlElement) -> Page:
    """A document as the page of its address."""
    path = "/" + address.removeprefix(root) if address.startswith(root) else urlsplit(address).path
    return Page(status, path, address, root, document)


def parsed(content: bytes, encoding: str | None) -> html.HtmlElement:
    """The document of an answer, whatever it holds: nothing, broken HTML, or no HTML at all."""
    try:
        parser = html.HTMLParser(encoding=encoding)
    except LookupError:
        parser = html.HTMLParser()
    try:
        return html.document_fromstring(content, parser=parser)
    except etree.ParserError:
        return html.document_fromstring(b"<html></html>")


def _joined(base: str, reference: str) -> str:
    """The address that a reference on a page stands for; nowhere, where it is none."""
    try:
        return urljoin(base, reference)
    except ValueError:
        return ""


def _grouped(values: list[tuple[str, str]]) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for name, value in values:
        fields.setdefault(name, []).append(value)
    return fields


def form_of(element: Any) -> Any:
    """The form around a control; None where it is in none."""
    return next(element.iterancestors("form"), None)


def text_of(element: Any) -> str:
    """What an element says, its space evened out."""
    return _SPACE.sub(" ", str(element.text_content())).strip()


def caption_of(label: html.HtmlElement) -> str:
    """What a label says, without what stands in a control that it wraps."""
    own = label.xpath(".//text()[not(ancestor::select or ancestor::textarea or ancestor::button)]")
    return _SPACE.sub(" ", "".join(map(str, own))).strip()


def plain(text: str) -> str:
    """A label as labels are compared: without case, needless space, and a colon or star at its end."""
    return _SPACE.sub(" ", text).strip().rstrip(":*").strip().casefold()


_BLOCKS: Final = ("title", "h1", "h2", "h3", "p", "li", "a", "label", "button", "td", "th", "dt", "dd", "option")


def _lines(document: html.HtmlElement) -> Iterator[str]:
    for element in document.iter(*_BLOCKS):
        if element.tag != "option" and (words := text_of(element)) and not _has_block(element):
            yield f"[{element.tag}] {words}" if element.tag in {"a", "label", "button"} else words


def _has_block(element: Any) -> bool:
    return any(child is not element and child.tag in _BLOCKS for child in element.iter())
