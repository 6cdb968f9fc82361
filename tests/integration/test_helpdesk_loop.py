"""The controller on the other site: a moved address is cured there by the same loop, and no other task is played."""

from __future__ import annotations

from functools import partial

from agents.envs.clients.client import EnvClient
from api.controllers.fast import Controller
from api.course import Course
from api.environments.admission import admit_at_first_use
from api.environments.connect import Placed
from api.house import House
from eventlog.events import Rules, SeedsRule, SweepPlanned
from projections.rewrites import REWRITES
from tests.golden.make import Quiet
from tests.recomputing import every_verdict_recomputes
from tests.sites import SharedSite

COURSE = Course(
    seeds_per_round=6,
    visible_seeds=(9_000,),
    sealed_seeds=tuple(range(10_000, 10_012)),
    max_rounds=6,
    max_verdicts=1,
    clusters=("navigation",),
    rules=Rules(test="bootstrap", min_pairs=1),
    max_parallel=4,
    rule=SeedsRule(),
)


def test_the_fast_loop_cures_the_helpdesks_moved_inbox(
    empty_house: House, shared_site: SharedSite, helpdesk: EnvClient
) -> None:
    house = empty_house
    admit = partial(admit_at_first_use, placed=Placed(shared_site("helpdesk"), helpdesk), reporter=Quiet())
    said = Controller(house, helpdesk, "helpdesk", COURSE, Quiet(), admit=admit).run()
    assert said == "eval-1 was decided: promote"
    assert every_verdict_recomputes(house) == 1
    sweeps = [recorded.event for recorded in house.store.read(types=["SweepPlanned"])]
    played = {each.template_id for event in sweeps if isinstance(event, SweepPlanned) for each in event.templates}
    assert played == {"helpdesk.triage_inbox"}
    promoted = [state.change for state in house.views().find(REWRITES).values() if state.status == "promoted"]
    assert {"kind": "follow_link", "page": "/", "label": "Inbox"} in promoted
