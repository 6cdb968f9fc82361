"""Hints and snippets on the real site: found in runs, tried, promoted, applied, and the same as of any position."""

from __future__ import annotations

from collections import Counter

import pytest

from agents.envs.clients.client import EnvClient
from agents.learning.memory import build_memory_artifact
from agents.rollouts.sweep import SeedSweep
from api.course import Course
from api.history.memory_file import export_memory, import_memory
from api.history.replay import replay_run
from api.house import House
from api.sweeps.jobs import jobs_of
from api.sweeps.plan import first_facts, plan, site_templates
from api.sweeps.play import credit, play_sweep
from eventlog.events import PieceKind, RunStarted, SeedsRule, Spec, SweepPlanned, Template, Trials
from eventlog.store import Position
from projections.memories import candidacies, piece_kind
from projections.pieces import HINTS
from projections.rewards import REWARDS
from tests.golden.make import Quiet
from tests.planned import sweeps_of

TASKS = ("marketplace.engine_spec", "marketplace.phone_reveal", "marketplace.price_watch")
AMOUNTS = (3, 14, 2)
"""Seeds of each round: one to find candidates in, one to try them in, one to see what was promoted."""

EVERY_GROUP = Trials(treated_micro=1_000_000, withheld_micro=0)
LESSONS = frozenset[PieceKind]({"hint", "snippet"})
COURSE = Course(max_parallel=4, rule=SeedsRule(), kinds=LESSONS)


@pytest.fixture(scope="module")
def client(marketplace: EnvClient) -> EnvClient:
    return marketplace


@pytest.fixture(scope="module")
def tasks(client: EnvClient) -> tuple[Template, ...]:
    """A task that lacks knowledge, one whose address drifts, and one that passes and knows the way."""
    return tuple(each for each in site_templates(client) if each.template_id in TASKS)


def swept(house: House, client: EnvClient, tasks: tuple[Template, ...], number: int) -> SweepPlanned:
    seeds = range(100 * number, 100 * number + AMOUNTS[number])
    sweep = plan(
        house,
        house.views(),
        "marketplace",
        SeedSweep(f"s{number}", tasks, seeds, 2),
        rng_seed=3,
        trials=EVERY_GROUP,
        kinds=LESSONS,
    )
    play_sweep(house, client, sweep, COURSE, Quiet())
    return sweep


def passed(house: House, sweep: SweepPlanned) -> Counter[str]:
    rewards = house.views().find(REWARDS, f"{sweep.sweep}__")
    return Counter(spec.template for spec in sweep.specs if spec.is_plain and rewards[spec.spec_id].passed)


@pytest.mark.costly("three rounds are played, and fewer trials than these promote nothing")
def test_hints_and_snippets_are_found_promoted_applied_and_the_same_as_of_then(
    empty_house: House, client: EnvClient, tasks: tuple[Template, ...]
) -> None:
    house = empty_house
    first_facts(house)
    sweeps = [swept(house, client, tasks, number) for number in range(len(AMOUNTS))]
    first, last = passed(house, sweeps[0]), passed(house, sweeps[-1])
    promoted = {piece_kind(state) for state in candidacies(house.views()).values() if state.status == "promoted"}
    assert {"hint", "snippet"} <= promoted
    assert first["marketplace.engine_spec"] == 0 < last["marketplace.engine_spec"]
    assert last["marketplace.phone_reveal"] > first["marketplace.phone_reveal"]
    _check_that_memory_is_the_same_as_of_then(house)
    _check_that_doing_it_again_adds_nothing(house, client, sweeps[-1])
    for spec in (_carrying(house, sweeps[-1], "hint"), _carrying(house, sweeps[-1], "snippet")):
        assert replay_run(house.store, house.blobs, house.views, spec.spec_id).outcome == "identical"
    _check_the_file(house)


def _check_that_memory_is_the_same_as_of_then(house: House) -> None:
    """Every sweep was played from another position; its plans are made again from the log as of that position."""
    for sweep in sweeps_of(house.store, "marketplace"):
        views = house.views(Position(sweep.artifact.memory.upto))
        again = build_memory_artifact(views, "base", kinds=LESSONS)
        assert again[0] == sweep.artifact
        planned = next(iter(house.store.read(stream=f"sweep/{sweep.sweep}"))).position
        for job in jobs_of(house, house.views(planned), sweep, sweep.specs):
            started = next(house.store.read(stream=f"run/{job.run}")).event
            assert isinstance(started, RunStarted)
            assert started.applied == job.overlay_plan().applied
    assert len({sweep.artifact.memory.digest for sweep in sweeps_of(house.store, "marketplace")}) > 1


def _check_that_doing_it_again_adds_nothing(house: House, client: EnvClient, sweep: SweepPlanned) -> None:
    head = house.store.head()
    credit(house, sweep)
    play_sweep(house, client, sweep, COURSE, Quiet())
    assert house.store.head() == head


def _carrying(house: House, sweep: SweepPlanned, kind: PieceKind) -> Spec:
    for spec in sweep.specs:
        started = next(house.store.read(stream=f"run/{spec.spec_id}")).event
        if isinstance(started, RunStarted) and any(item.kind == kind for item in started.applied):
            return spec
    raise AssertionError(f"no run carried a {kind}")


def _check_the_file(house: House) -> None:
    """What is written and not edited is known already, but that rewrites come in as recipes; edited, it is another."""
    before = house.views().find(HINTS)
    text = export_memory(house, house.views()).texts[0]
    assert {name[:3] for name in import_memory(house, text, SeedsRule(), "person").fresh} <= {"rc-"}
    assert import_memory(house, text, SeedsRule(), "person").fresh == ()
    edited = import_memory(house, text.replace("Haul-out report", "Haul-out"), SeedsRule(), "person").fresh
    hints = house.views().find(HINTS)
    assert {hints[name].status for name in hints.keys() - before.keys()} == {"candidate"}
    assert hints.keys() - before.keys() <= {*edited}
