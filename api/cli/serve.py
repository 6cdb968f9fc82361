"""`flywheel serve`: the dashboard, the REST API, and the capture proxy, with the champion behind it if it is asked."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any

import typer
import uvicorn

from ..app import create_app
from ..errors import BadCertificate
from ..house import House
from ..ports import listen
from ..serving.adapter_upstream import refuse_bad_endpoint
from ..serving.challengers import refuse_unknown_adapter
from ..serving.local_champion import open_champion
from ..serving.local_upstream import CHAMPION, LocalChampion
from ..settings import read_settings
from ..webhooks.addresses import read_networks
from ..webhooks.deliver import deliver_until
from .db import first_token
from .freed_memory import give_back_until, share_memory_pools
from .interrupts import INTERRUPTED, leave_to_server
from .output import open_project, say


def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on. Default: FLYWHEEL_HOST.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Default: FLYWHEEL_PORT.")] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="Serve over TLS with this certificate (PEM). Default: FLYWHEEL_TLS_CERTIFICATE.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM). Default: FLYWHEEL_TLS_KEY.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|llamacpp:FOLDER|transformers:FOLDER",
            help="Serve the champion on this base behind the proxy, as the model `champion`.",
        ),
    ] = None,
) -> None:
    """Serve the dashboard and the REST API until interrupted. Prints an admin token if there is none yet.

    With --model, a change of the champion is followed: its weights are loaded and checked, then new calls get them.
    """
    settings = read_settings()
    read_networks(settings.webhook_networks)
    tls = tls_files(tls_certificate or settings.tls_certificate, tls_key or settings.tls_key)
    refuse_bad_endpoint(settings)
    with open_project() as house, _champion(house, model) as champion:
        refuse_unknown_adapter(house)
        listener = listen(host or settings.host, settings.port if port is None else port)
        address, taken = listener.getsockname()[:2]
        first_token(house)
        scheme = "https" if tls else "http"
        say(f"Serving on {scheme}://{address}:{taken}. The dashboard is at /; endpoints are at /docs.")
        if champion is not None:
            present = champion.deployment.present
            say(f"The model {CHAMPION!r} is {present.artifact} at /ext-NAME/v1, followed as the champion changes.")
        app = create_app(house, champion)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, **tls))
        app.state.is_stopping = lambda: server.should_exit
        with work_beside(house), leave_to_server():
            server.run(sockets=[listener])
    raise typer.Exit(INTERRUPTED)


def tls_files(certificate: Path | None, key: Path | None) -> dict[str, Any]:
    """The options of the server for TLS, none without a certificate. Raises BadCertificate."""
    if certificate is None:
        if key is None:
            return {}
        raise BadCertificate(certificate="that is missing", key=key, actual="a key alone was given")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as problem:
        raise BadCertificate(certificate=certificate, key=key or certificate, actual=str(problem)) from problem
    return {"ssl_certfile": str(certificate), "ssl_keyfile": None if key is None else str(key)}


@contextmanager
def work_beside(house: House) -> Iterator[None]:
    """Deliver to webhooks and give freed memory back, each in a thread, until the block ends.

    A message that is on its way ends first.
    """
    share_memory_pools()
    with (
        _thread_beside("webhooks", partial(deliver_until, house)),
        _thread_beside("freed memory", give_back_until),
    ):
        yield


@contextmanager
def _thread_beside(name: str, work: Callable[[Event], None]) -> Iterator[None]:
    """Work in a thread until the block ends; `work` returns soon after the event that it is given is set."""
    stop = Event()
    thread = Thread(target=work, args=(stop,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def _champion(house: House, model: str | None) -> Iterator[LocalChampion | None]:
    if model is None:
        yield None
        return
    with open_champion(house, model, say) as champion:
        yield champion
