"""Every probe finds the fault it is there for, in a site that is served and has this one fault alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.contract import Graded, Instance
from agents.envs.errors import EnvironmentDown
from agents.envs.probing.local import probe_target, start_site
from agents.envs.probing.probes import PROBES, SEEDS, EnvironmentProbe, report, run_probe, tasks_digest
from agents.envs.probing.target import Started, Target
from agents.envs.provider import Site, known_sites, local_site
from agents.envs.sites.helpdesk.solve import SOLUTIONS as DESK_SOLUTIONS
from agents.envs.sites.marketplace.solve import SOLUTIONS as MARKET_SOLUTIONS
from tests.sites import SharedSite

from .planted import (
    TOKEN,
    Plant,
    admin_on_the_pages_port,
    breaks_at,
    changed,
    forgets_mutations,
    grades_anything,
    leaks_over_reset,
    lets_in,
    lists_nothing,
    looks_fresh,
    never_granted,
    never_passes,
    never_twice_alike,
    oracle_wavers,
    oracle_writes,
    pays_for_a_look,
    pays_for_any_deed,
    pays_for_nothing,
    planted,
    seed_ignored,
    shares_state,
    since_is_ignored,
)

BY_NAME = {probe.name: probe for probe in PROBES}


def only_oracle(tell: Callable[..., tuple[int, dict[str, object]]]) -> Plant:
    return changed(tell=lambda a, status, facts: tell(a, status, facts) if a.call == "oracle" else (status, facts))


FAULTS: list[tuple[str, str, Callable[[], Plant]]] = [
    ("null_agent", "phone_reveal at seed 0 is passed without any action", lambda: only_oracle(pays_for_nothing)),
    ("null_agent", "after one look at the first page", pays_for_a_look),
    ("random_agent", "price_watch was passed by", lambda: only_oracle(pays_for_any_deed)),
    ("random_agent", "met status 500 at /advice", lambda: breaks_at("/advice")),
    ("oracle_agent", "engine_spec at seed 0 is failed by its known solution", lambda: only_oracle(never_passes)),
    ("oracle_agent", "control_draw was never won in 16", lambda: only_oracle(never_granted)),
    ("grading_only_looks", "grading changed a fresh instance", oracle_writes),
    ("grading_only_looks", "graded twice and differently", oracle_wavers),
    ("two_seeds", "seeds 0 and 1 made the same state", lambda: seed_ignored(salt=False)),
    ("two_seeds", "at seed 1 is passed by the answer of seed 0", lambda: seed_ignored(salt=True)),
    ("two_seeds", "seed 0 made two different states", lambda: changed(tell=never_twice_alike)),
    ("repeat_without_reset", "state leaks over it", leaks_over_reset),
    ("repeat_without_reset", "has the fingerprint of a fresh one", looks_fresh),
    ("side_by_side", "is seen in another", shares_state),
    ("mutations_by_id", "ContractBroken", lambda: changed(ask=since_is_ignored)),
    ("mutations_by_id", "is not listed any more", lambda: changed(tell=forgets_mutations)),
    ("mutations_by_id", "no mutation is listed", lambda: changed(tell=lists_nothing)),
    ("wrong_token", "a first reset is answered with no token", lambda: lets_in("reset")),
    ("wrong_token", "mutations is answered with no token", lambda: lets_in("mutations")),
    ("pages_port", "answers GET /__env__/health with status 200", lambda: admin_on_the_pages_port),
    ("unknown_task", "was given the score 0", lambda: changed(tell=grades_anything)),
]


@contextmanager
def target_at(site: Site, seeds: tuple[int, ...] = SEEDS) -> Iterator[Target]:
    with EnvClient(site.admin_url, site.admin_token) as client:
        yield probe_target(site, client, seeds=seeds)


@pytest.mark.parametrize(("probe", "words", "fault"), FAULTS, ids=[f"{name}: {words}" for name, words, _ in FAULTS])
def test_a_probe_finds_its_fault_and_says_what_it_is(
    probe: str, words: str, fault: Callable[[], Plant], monkeypatch: pytest.MonkeyPatch
) -> None:
    with planted("marketplace", fault(), monkeypatch) as site, target_at(site) as target:
        found = run_probe(BY_NAME[probe], target)
    assert (found.name, found.outcome) == (probe, "failed")
    assert words in found.detail


@pytest.mark.parametrize("name", sorted(known_sites()))
def test_a_site_of_ours_passes_every_probe(name: str) -> None:
    counted: list[None] = []
    with local_site(name) as site, target_at(site) as target:
        found = report(target, advance=lambda: counted.append(None))
        assert [client.instances for client in [target.environment.health()]] == [0]
    assert {result.name: result.detail for result in found.probes if result.outcome != "passed"} == {}
    assert tuple(result.name for result in found.probes) == tuple(BY_NAME)
    assert len(counted) == len(PROBES)
    assert (found.environment, found.url, found.seeds) == (name, None, SEEDS)
    assert [each.env_seed for each in found.fingerprints] == list(SEEDS)
    assert found.tasks_digest == tasks_digest(known_sites()[name].tasks)


def test_a_planted_site_without_a_fault_passes_all_that_can_be_asked_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with planted("helpdesk", changed(), monkeypatch) as site, target_at(site) as target:
        found = report(target)
    assert {result.name: result.outcome for result in found.probes if result.outcome != "passed"} == {
        "killed_process": "skipped"
    }
    assert found.url == site.admin_url


def test_every_task_of_ours_has_a_known_solution() -> None:
    assert set(MARKET_SOLUTIONS) == {task.task_id for task in known_sites()["marketplace"].tasks}
    assert set(DESK_SOLUTIONS) == {task.task_id for task in known_sites()["helpdesk"].tasks}


def test_without_a_known_solution_walks_stand_in_and_what_cannot_be_asked_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with planted("marketplace", changed(), monkeypatch) as site, target_at(site) as target:
        found = report(replace(target, solve=None))
    outcomes = {result.name: result.outcome for result in found.probes}
    assert {name for name, outcome in outcomes.items() if outcome == "skipped"} == {"oracle_agent", "killed_process"}
    assert set(outcomes.values()) == {"passed", "skipped"}


def test_a_report_is_the_same_for_the_same_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    with planted("helpdesk", changed(), monkeypatch) as site, target_at(site, (3, 4)) as target:
        assert report(target) == report(target)


def test_a_site_that_is_gone_gets_no_report(shared_site: SharedSite) -> None:
    with target_at(shared_site("helpdesk"), (0, 1)) as target:

        def vanish(_: Target) -> str:
            with start_site("helpdesk") as other:
                other.kill()
                return str(other.environment.state("gone"))

        gone = replace(target, environment=EnvClient("http://127.0.0.1:9", TOKEN))
        assert run_probe(EnvironmentProbe("x", "y", vanish), target).outcome == "failed"
        with pytest.raises(EnvironmentDown):
            run_probe(BY_NAME["null_agent"], gone)


def test_one_address_for_both_ports_is_skipped_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with planted("helpdesk", admin_on_the_pages_port, monkeypatch) as site:
        one = replace(site, admin_url=site.url)
        with target_at(one) as target:
            found = run_probe(BY_NAME["pages_port"], target)
    assert found.outcome == "skipped"
    assert "only the token" in found.detail


# A process that dies --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Soothing:
    """An environment that takes trouble for a score of zero."""

    inner: EnvClient

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        try:
            return self.inner.oracle(instance, task_id)
        except EnvironmentDown:
            return Graded(task_id=task_id, passed=False, score_micro=0, reasons=(), diff={})


@contextmanager
def survives() -> Iterator[Started]:
    with start_site("helpdesk") as found:
        yield Started(found.environment, lambda: None)


@contextmanager
def scores_zero() -> Iterator[Started]:
    with start_site("helpdesk") as found:
        assert isinstance(found.environment, EnvClient)
        yield Started(Soothing(found.environment), found.kill)  # type: ignore[arg-type]


@contextmanager
def of_another_making(starts: list[str]) -> Iterator[Started]:
    """The second process is of another making than the first."""
    starts.append("once more")
    with start_site("helpdesk" if len(starts) == 1 else "marketplace") as found:
        yield found


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (survives, "a page still answers"),
        (scores_zero, "the oracle still answers"),
        (partial(of_another_making, []), "a fresh process makes another instance of seed 0"),
    ],
)
def test_a_process_that_is_not_down_when_it_is_dead_is_found(
    shared_site: SharedSite, start: Callable[[], object], words: str
) -> None:
    with target_at(shared_site("helpdesk")) as target:
        found = run_probe(BY_NAME["killed_process"], replace(target, start=start))  # type: ignore[arg-type]
    assert found.outcome == "failed"
    assert words in found.detail
