"""`flywheel env probe` and `env reset`: test an environment, and create an instance to look at."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from agents.envs.clients.client import EnvClient
from agents.envs.episodes.names import is_episode_name
from agents.envs.foreign.dialect import read_dialect
from agents.envs.probing.probes import PROBES, SEEDS
from agents.envs.provider import site_at
from agents.envs.sandbox import PORT
from projections.environments import ProbeFinding

from ..environments.admission import Probed, probe_and_record, target_at, with_plans
from ..environments.connect import ANEW, Where, placed_at
from ..settings import read_settings
from .output import ERR, AsJson, TerminalReporter, emit_json, open_project, print_facts, say, table
from .sites import AdminPort, DialectFile, PoolSize, PoolVariables, PoolWords, Port, SandboxId, SuiteOf, Url, pool_from

AdminUrl = Annotated[
    str | None,
    typer.Option(
        "--admin-url", help="Admin address of a running site; its token is read from FLYWHEEL_ENV_ADMIN_TOKEN."
    ),
]


def probe(
    site: Annotated[
        str | None, typer.Argument(metavar="SITE|URL", help="A bundled site, or the page URL of a running one.")
    ] = None,
    *,
    url: Url = None,
    admin_url: AdminUrl = None,
    sandbox: SandboxId = None,
    port: Port = PORT,
    admin_port: AdminPort = None,
    command: PoolWords = None,
    variable: PoolVariables = None,
    processes: PoolSize = 1,
    seeds: Annotated[
        str, typer.Option(metavar="N,N,...", help="Seeds of the instances; at least two, to compare them.")
    ] = ",".join(map(str, SEEDS)),
    rng_seed: Annotated[int, typer.Option(min=0, help="Seed of the random walks.")] = 0,
    admit: Annotated[bool, typer.Option("--admit/--no-admit", help="Admit the site if no probe fails.")] = True,
    reason: Annotated[str, typer.Option(help="Reason recorded with the admission.")] = "probed, and nothing failed",
    dialect: DialectFile = None,
    suite: SuiteOf = None,
    as_json: AsJson = False,
) -> None:
    """Test an environment (determinism, isolation, a fair oracle), record the results and admit it.

    Where no solution is known, the plans of its suite show which tasks have the same answer at every seed. The exit
    code is 1 if a probe failed.
    """
    chosen = _seeds(seeds)
    spoken = None if dialect is None else read_dialect(dialect)
    pool = pool_from(command, variable)
    asked = Where(None, admin_url, sandbox, port, admin_port, pool=pool, processes=processes)
    name, where = _place(site, url, admin_url, asked)
    with open_project() as house, placed_at(house, name, where, spoken) as placed:
        target = with_plans(house, target_at(placed, seeds=chosen, rng_seed=rng_seed), suite)
        found = probe_and_record(house, target, TerminalReporter(), "operator", reason=reason if admit else None)
    emit_json(found.state) if as_json else _show(found)
    if found.state.failed_probes:
        raise typer.Exit(1)


def reset(
    admin_url: Annotated[
        str,
        typer.Option("--admin-url", help="Admin address of the site; its token is read from FLYWHEEL_ENV_ADMIN_TOKEN."),
    ],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the instance.")] = 0,
    repeat: Annotated[int, typer.Option(min=0, help="Sibling or repeat index; selects the instance's noise.")] = 0,
    instance: Annotated[str | None, typer.Option(help="Reset this instance instead of creating a new one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Create an instance of a running site and print its address, to open it in a browser."""
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
        ERR.print("Open the address in a browser. `flywheel env serve` starts a bundled site.")


def _place(site: str | None, url: str | None, admin_url: str | None, where: Where) -> tuple[str, Where]:
    """Name and place of what to probe: a bundled site, one at an address or in a sandbox, or one without pages."""
    if site is not None and is_episode_name(site):
        return site, Where(url or admin_url)
    address = url if url is not None or site is None or "://" not in site else site
    if site is not None and where.pool is not None:
        return site, where
    if address is None and where.sandbox is None:
        if site is None or admin_url is not None:
            raise typer.BadParameter("a running site needs the URL of its pages, or --sandbox; a bundled one its name")
        return site, ANEW
    _token()
    name = site if site is not None and "://" not in site else address or where.sandbox or ""
    return name, replace(where, url=address)


def _token() -> str:
    token = read_settings().env_admin_token
    if token is None:
        raise typer.BadParameter("a running site needs its admin token in FLYWHEEL_ENV_ADMIN_TOKEN")
    return token.get_secret_value()


def _detail_once(probe: ProbeFinding, said: dict[str, str]) -> str:
    """Detail of a probe's finding; a detail that another probe gave is referred to by that probe's name."""
    first = said.setdefault(probe.detail, probe.name)
    return probe.detail if first == probe.name else f"as {first}"


def _seeds(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts) or len(set(parts)) < len(parts):
        raise typer.BadParameter(
            f"{text!r} is not a list of seeds; expected distinct natural numbers such as 0,1,10000"
        )
    return tuple(map(int, parts))


def _show(found: Probed) -> None:
    meanings = {each.name: each.meaning for each in PROBES}
    state, said = found.state, dict[str, str]()
    rows = [(each.name, each.outcome, meanings[each.name], _detail_once(each, said)) for each in state.probes]
    table(
        ("probe", "outcome", "requirement", "found"), rows, title=f"{state.environment}, position {state.probed_since}"
    )
    if state.failed_probes:
        say(f"{state.environment} is not admitted: {', '.join(state.failed_probes)} failed.")
    elif found.admitted is None:
        say(f"No probe failed. {state.environment} was not admitted because of --no-admit.")
    else:
        say(f"{state.environment} is admitted since position {found.admitted}.")
