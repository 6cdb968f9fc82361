"""Jinja2 environments for the pages of the bundled sites."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from markupsafe import Markup

from .addresses import InstanceAddresses

SHARED: Final = Path(__file__).parent / "templates"
LINE_BREAK: Final = re.compile(r"\s*\n\s*")


class Unindented(Extension):
    """Drop line breaks and indentation from HTML templates; a printed newline string writes one into the page."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Yield the tokens of a template, with line breaks removed from its text."""
        is_html = str(stream.name).endswith(".html")
        for token in stream:
            text = LINE_BREAK.sub("", token.value) if is_html and token.type == "data" else token.value
            yield Token(token.lineno, token.type, text)


def site_templates(site: Path) -> Environment:
    """Environment of one site: templates come from its `templates` folder, then from the folder shared by all sites."""
    return Environment(
        loader=FileSystemLoader([site / "templates", SHARED]),
        autoescape=True,
        auto_reload=False,
        extensions=[Unindented],
        finalize=_escape,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )


def render_page(template: str, addresses: InstanceAddresses, **values: object) -> str:
    """Render one template of a site, for one of its instances."""
    return addresses.templates.get_template(template).render(values, addresses=addresses)


def _escape(value: object) -> Markup:
    """Escape like `html.escape`: recorded pages hold its `&quot;` and `&#x27;`, not MarkupSafe's numeric forms."""
    return value if isinstance(value, Markup) else Markup(escape(str(value)))  # noqa: S704 (escaped here)
