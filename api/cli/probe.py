"""`flywheel env probe` and `env reset`: whether an environment may be trusted, and an instance to look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
import typer

from agents.envs.clients.client import EnvClient
from agents.envs.foreign.dialect import Dialect, read_dialect
from agents.envs.probing.probes import PROBES, SEEDS
from agents.envs.provider import site_at

from ..environments.admission import Probed, probe_and_record, target_at
from ..environments.connect import Placed, Where, placed_at
from ..house import House
from ..settings import read_settings
from .output import ERR, AsJson, TerminalReporter, emit_json, open_project, print_facts, say, table
from .sites import DialectFile

AdminUrl = Annotated[
    str | None,
    typer.Option("--admin-url", help="The admin address of a site that runs; FLYWHEEL_ENV_ADMIN_TOKEN has its token."),
]


def probe(
    site: Annotated[str, typer.Argument(metavar="SITE|URL", help="One of our sites, or the pages of one that runs.")],
    admin_url: AdminUrl = None,
    seeds: Annotated[
        str, typer.Option(metavar="N,N,...", help="Seeds to make instances from; two or more to be compared.")
    ] = ",".join(map(str, SEEDS)),
    rng_seed: Annotated[int, typer.Option(min=0, help="What the random walks are drawn by.")] = 0,
    admit: Annotated[bool, typer.Option("--admit/--no-admit", help="Admit it where nothing failed.")] = True,
    reason: Annotated[str, typer.Option(help="Why it is admitted.")] = "probed, and nothing failed",
    dialect: DialectFile = None,
    as_json: AsJson = False,
) -> None:
    """Ask an environment what a fair one answers, record it, and admit it. Exit code 1 where a probe failed."""
    chosen = _seeds(seeds)
    spoken = None if dialect is None else read_dialect(dialect)
    with open_project() as house, _site_to_probe(house, site, admin_url, spoken) as placed:
        target = target_at(placed, seeds=chosen, rng_seed=rng_seed, dialect=spoken)
        found = probe_and_record(house, target, TerminalReporter(), "operator", reason=reason if admit else None)
    emit_json(_plain(found)) if as_json else _show(found)
    if found.state.failed_probes:
        raise typer.Exit(1)


def reset(
    admin_url: Annotated[
        str, typer.Option("--admin-url", help="The site's admin address; FLYWHEEL_ENV_ADMIN_TOKEN has its token.")
    ],
    seed: Annotated[int, typer.Option(min=0, help="The seed that the instance is made from.")] = 0,
    repeat: Annotated[int, typer.Option(min=0, help="The sibling or repeat index of its noise.")] = 0,
    instance: Annotated[str | None, typer.Option(help="Make this instance anew instead of another one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Mint an instance of a site that runs and print its address, to look at it in a browser."""
    there = site_at(admin_url, url=admin_url, admin_url=admin_url, admin_token=_token())
    with EnvClient(there.admin_url, there.admin_token) as client:
        made = client.reset(seed, instance=instance, repeat=repeat)
        told: dict[str, object] = {
            "site": client.health().site,
            "seed": made.seed,
            "instance": made.instance,
            "url": made.url,
            "fingerprint": client.state(made).fingerprint,
        }
    if as_json:
        emit_json(told)
    else:
        print_facts(list(told.items()))
        ERR.print("Open the address in a browser; a site that does not run yet is served by `flywheel env serve`.")


@contextmanager
def _site_to_probe(house: House, site: str, admin_url: str | None, dialect: Dialect | None) -> Iterator[Placed]:
    """A site of ours in a process of its own, or one that runs at an address."""
    if "://" not in site and admin_url is None:
        with placed_at(house, site) as placed:
            yield placed
        return
    if "://" not in site or admin_url is None:
        raise typer.BadParameter("a running site needs the URL of its pages and --admin-url")
    _token()
    with placed_at(house, site, Where(site, admin_url), dialect) as placed:
        yield placed


def _token() -> str:
    token = read_settings().env_admin_token
    if token is None:
        raise typer.BadParameter("a running site needs its admin token in FLYWHEEL_ENV_ADMIN_TOKEN")
    return token.get_secret_value()


def _seeds(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts) or len(set(parts)) < len(parts):
        raise typer.BadParameter(f"{text!r} names no seeds; expected natural numbers, each once, such as 0,1,10000")
    return tuple(map(int, parts))


def _plain(found: Probed) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(found.state)
    return plain


def _show(found: Probed) -> None:
    meanings = {each.name: each.meaning for each in PROBES}
    rows = [(probe.name, probe.outcome, meanings[probe.name], probe.detail) for probe in found.state.probes]
    state = found.state
    table(("probe", "outcome", "asks that", "found"), rows, title=f"{state.environment}, position {state.probed_since}")
    if state.failed_probes:
        say(f"{state.environment} is not admitted: {', '.join(state.failed_probes)} failed.")
    elif found.admitted is None:
        say(f"Nothing failed; {state.environment} was not admitted, as asked.")
    else:
        say(f"{state.environment} is admitted since position {found.admitted}.")
