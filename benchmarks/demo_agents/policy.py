"""A policy on SmolLM2: adapted once on other sites, then frozen, so that it gets better by what it is told alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

from agents.envs.clients.client import EnvClient
from agents.executors.executor import Executor
from agents.models.local.network import PREFIX
from api.course import Course
from api.datasets.demonstrations import keep_tokens
from api.house import House
from api.reporter import Reporter
from api.sweeps.executors import Way, executor_of
from api.training.bases import add_base, find_source
from api.training.weights import base_of, folders_of
from benchmarks.demo_sites import FIRST_SEALED
from benchmarks.resuming import house_on, server_in, train_once
from eventlog.events import Lora, PieceKind, SftConfig, SftQuery
from eventlog.weights_folder import Base
from tests.desks.grammar import CONTROL, DeskKind
from tests.desks.serving import serve_desk
from tests.desks.words import CLINIC, LIBRARY, PERMITS

from .learning import ABLATIONS, Case, Measured, Sizes, measure, project_of
from .school import demonstrate, plain_name, task_of, told_name

BASE: Final = "smollm2"
ACTOR: Final = "demo"
TOGETHER: Final[dict[str, frozenset[PieceKind]]] = {"looking and contrast": frozenset({"hint", "exemplar"})}
"""What every judged site is learned by. Each kind alone is measured on those where something can be cured."""

ALONE: Final = {lessons: ABLATIONS[lessons] for lessons in ("looking alone", "contrast alone")}
KINDS: Final = TOGETHER | ALONE
JUDGED: Final = (
    DeskKind(CLINIC, ("missing prerequisite",)),
    DeskKind(PERMITS, ("extra confirmation",)),
    DeskKind(LIBRARY, CONTROL),
)
"""Sites with words that nothing was trained on."""

SIZES: Final = Sizes(found=8, tried=8, sealed=16, rounds=4)
SFT: Final = SftConfig(steps=50, learning_rate="0.0005", rows_per_step=4, threads=2, lora=Lora(rank=16, alpha=32))


@dataclass(frozen=True, slots=True)
class Effort:
    """Numbers of sites of the school, of demonstrations on each without and with advice, and of what is judged.

    While the policy learns it is drawn from at `temperature_micro`: sealed seeds are played greedily, and what is
    sampled far from that says little about them.
    """

    sites: int = 36
    plain: int = 2
    told: int = 4
    sizes: Sizes = SIZES
    judged: tuple[DeskKind, ...] = JUDGED
    at_once: int = 32
    temperature_micro: int = 300_000
    sft: SftConfig = SFT


def quick() -> Effort:
    """A trial of every part, in which nothing can be learned."""
    whole = Effort()
    return replace(
        whole,
        sites=1,
        plain=2,
        told=4,
        sizes=Sizes(found=1, tried=1, sealed=2, rounds=1),
        judged=(JUDGED[0], JUDGED[-1]),
        at_once=4,
        sft=whole.sft.model_copy(update={"steps": 1, "rows_per_step": 2}),
    )


def measured_policy(
    folder: Path, effort: Effort, reporter: Reporter, *, is_alone: bool = False
) -> tuple[list[Measured], str]:
    """Adapt the base on the school's sites, and measure each judged site; with what it was adapted on, in words.

    Each site is learned by each kinds of lessons in a project of its own, so that none knows what another found.
    """
    wordings = {"policy_wording": "brief", "model_threads": effort.sft.threads}
    found: list[Measured] = []
    with server_in(folder) as server, house_on(server, folder, "agents", **wordings) as house:
        base = base_of(house, add_base(house, find_source(BASE, None, None)).base, None)
        weights, rows = adapt(house, base, effort, reporter)
        model = f"{PREFIX}{base.path}"
        with executor_of(Way.POLICY, house.settings, model=model, folder_of=folders_of(house)) as executor:
            for lessons, desk in todo(effort.judged, is_alone=is_alone):
                project = project_of(desk.words.site, KINDS[lessons])
                with (
                    house_on(server, folder, project, **wordings) as own,
                    open_case(desk, executor, weights, effort, reporter) as case,
                ):
                    found.append(measure(own, case, lessons, KINDS[lessons], effort.sizes))
                reporter.say(f"{found[-1]}")
    shown = f"{rows} demonstrations that passed, of {effort.plain} seeds without and {effort.told} with advice"
    return found, (
        f"SmolLM2-135M-Instruct, adapted by {effort.sft.steps} steps of {effort.sft.rows_per_step} rows on {shown} on "
        f"each of {effort.sites} other sites."
    )


def todo(judged: tuple[DeskKind, ...], *, is_alone: bool) -> Iterator[tuple[str, DeskKind]]:
    """Kinds of lessons by name, each of them alone or all together, and the site that is learned by them."""
    curable = [desk for desk in judged if desk.obstacles != CONTROL]
    yield from product(ALONE, curable) if is_alone else product(TOGETHER, judged)


def adapt(house: House, base: Base, effort: Effort, reporter: Reporter) -> tuple[str, int]:
    """The checkpoint that the policy plays with from here on, and the number of rows that it was trained on."""
    course = Course(max_parallel=effort.at_once)
    for number in range(effort.sites):
        demonstrate(house, number, effort.plain, effort.told, course, reporter)
    names = sorted(each(number) for number in range(effort.sites) for each in (plain_name, told_name))
    query = SftQuery(runs="demonstration", sweep=tuple(names), tokens=keep_tokens(house.blobs, base.path))
    state, rows = train_once(house, query, base, effort.sft, reporter, ACTOR)
    return state.checkpoint, rows


@contextmanager
def open_case(desk: DeskKind, executor: Executor, weights: str, effort: Effort, reporter: Reporter) -> Iterator[Case]:
    """Serve a site, and yield its task for the policy."""
    with serve_desk(desk) as site, EnvClient(site.admin_url, site.admin_token) as client:
        course = Course(max_parallel=effort.at_once, temperature_micro=effort.temperature_micro)
        yield Case(
            obstacle=" and ".join(desk.obstacles),
            site=desk.words.site,
            task=task_of(desk),
            environment=client,
            learner=executor,
            knower=executor,
            pool=(),
            sealed_from=FIRST_SEALED,
            is_control=desk.obstacles == CONTROL,
            weights=weights,
            temperatures=(course.temperature_micro,),
            course=course,
            reporter=reporter,
        )
