"""`flywheel webhook`: addresses that get verdicts and moves of the champion."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from eventlog.events import WebhookTopic

from ..queries.webhooks import WebhookList, list_webhooks
from ..settings import read_secret
from ..webhooks import register
from .output import ERR, AsJson, AsOf, open_project, print_rows, say
from .sources import Server, open_source

app = typer.Typer(help="Webhooks: add, list, remove.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The webhook's name: small letters, digits, - and _.")]
EVERY: tuple[WebhookTopic, ...] = ("verdict", "champion")
_WORDS = {"verdict": "verdicts", "champion": "moves of the champion"}


@app.command()
def add(
    name: Name,
    url: Annotated[str, typer.Option(help="Where to send: https://HOST/PATH, without a query.")],
    secret: Annotated[
        str, typer.Option(help="The variable that holds the signing secret: FLYWHEEL_WEBHOOK_NAME. Never the secret.")
    ],
    about: Annotated[Literal["both", "verdict", "champion"], typer.Option(help="What to send.")] = "both",
) -> None:
    """Send verdicts and moves of the champion to an address, from the next one on.

    `flywheel serve` sends the messages; see docs/webhooks.md.
    """
    topics: tuple[WebhookTopic, ...] = EVERY if about == "both" else (about,)
    with open_project() as house:
        register.add_webhook(house.store, house.views(), name, url, secret, topics, "operator")
    if read_secret(secret) is None:
        ERR.print(f"{secret} is not set here; `flywheel serve` needs it", soft_wrap=True)
    say(f"added {name}: it gets {' and '.join(_WORDS[topic] for topic in topics)} from now on")


@app.command("list")
def list_(as_of: AsOf = None, server: Server = None, as_json: AsJson = False) -> None:
    """List webhooks and how their last attempt went. A server tells administrators alone."""
    with open_source(server, as_of) as source:
        states, _ = source.pages(
            WebhookList, "webhooks", "/v1/webhooks", lambda _house, views: list_webhooks(views), None, None
        )
    rows = [
        {
            "webhook": state.webhook,
            "url": state.url,
            "about": ", ".join(state.topics),
            "secret": state.secret,
            "told_up_to": state.told,
            "last": f"{state.outcome}: {state.detail} (attempt {state.attempts})" if state.outcome else "nothing yet",
        }
        for state in states
    ]
    columns = ("webhook", "url", "about", "secret", "told_up_to", "last")
    print_rows(rows, columns, as_json=as_json, empty="no webhooks; add one with `flywheel webhook add NAME --url URL`")


@app.command()
def remove(name: Name, reason: Annotated[str, typer.Option(help="Why.")]) -> None:
    """Remove a webhook: it gets no further message."""
    with open_project() as house:
        register.remove_webhook(house.store, house.views(), name, reason, "operator")
    say(f"removed {name}: it gets no further message")
