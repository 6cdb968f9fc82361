"""The short form of `make demo-sites`: sweep, trials and promotion on one small site with a held-out combination."""

from __future__ import annotations

from agents.envs.clients.client import EnvClient
from agents.learning.memory import build_memory_artifact, forget_everything
from api.course import BASE
from api.house import House
from api.sweeps.plan import first_facts
from benchmarks.demo_sites import QUICK, drawn_cases, learn, play_sealed
from projections.memories import candidacies
from tests.desks.grammar import CONTROL, DeskKind
from tests.desks.serving import serve_desk
from tests.desks.words import CLINIC


def test_a_cure_of_several_steps_is_promoted_by_trials_and_passes_on_sealed_seeds(empty_house: House) -> None:
    desk = DeskKind(CLINIC, ("tabbed form", "gate page"))
    first_facts(empty_house)
    with serve_desk(desk) as site, EnvClient(site.admin_url, site.admin_token) as client:
        learn(empty_house, client, desk, QUICK)
        before = play_sealed(empty_house, client, desk, "before", QUICK, forget_everything(BASE))
        after = play_sealed(empty_house, client, desk, "after", QUICK, build_memory_artifact(empty_house.views(), BASE))
    assert (before, after) == (QUICK.sealed // 4, QUICK.sealed)
    promoted = [state for state in candidacies(empty_house.views()).values() if state.status == "promoted"]
    assert len(promoted) == 1


def test_the_demo_draws_each_sort_of_site_and_one_control() -> None:
    assert [sort for _, sort in drawn_cases(0, is_short=True)] == ["tried", "held out", "two places", "control"]
    every = drawn_cases(0, is_short=False)
    assert every == drawn_cases(0, is_short=False)
    assert [desk.obstacles for desk, sort in every if sort == "control"] == [CONTROL]
