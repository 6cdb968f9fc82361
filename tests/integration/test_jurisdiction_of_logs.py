"""Drawn histories of a real log with three sites: every piece in a champion was judged wherever it acts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agents.learning.memory import build_memory_artifact
from agents.learning.memory_scope import entries_of
from agents.suites.in_log import register_suite
from api.evaluations.evaluate import challenger_on
from api.house import House
from api.queries.champion import present_champion
from eventlog.events import Artifact, ChampionPointed, EvaluationOpened, Step, Suite, SuiteTask, VerdictReached
from gate.errors import NothingBefore
from gate.promote import back, point
from tests.sites import HouseFrom

from .test_jurisdiction import (
    DESK,
    KINDS,
    SHOP,
    START,
    TASKS,
    begin,
    judge_here,
    learn_hint,
    learn_rewrite,
    open_site,
    own_step,
    shipped_plan,
)

FORUM = "forum"
SITES = frozenset({SHOP, DESK, FORUM})
BOARD = Step(type="click", intent="open the board", label="Board")
POST = (START, BOARD, Step(type="submit", intent="post it", label="Post"))
TRAINED = "c" * 64
MOST_CHALLENGERS = 40
OWN_STEPS = {SHOP: own_step(SHOP), DESK: own_step(DESK), FORUM: BOARD}

Deed = tuple[str, str, bool]
"""What is done, on which site, and whether a judgement promotes."""

DEEDS = st.tuples(
    st.sampled_from(["hint", "rewrite", "shared", "judge", "judge", "judge", "weights", "point", "back"]),
    st.sampled_from(sorted(SITES)),
    st.booleans(),
)
EACH_SITE: list[Deed] = [("judge", site, True) for site in sorted(SITES)]
TRAINED_EVERYWHERE: list[Deed] = [("weights", site, True) for site in sorted(SITES)]


class History:
    """A log of three sites, and what its deeds brought: each piece with the sites on which it acts."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.acts: dict[str, frozenset[str]] = {}
        begin(house)
        for site, task in TASKS.items():
            open_site(house, site, task, shipped_plan(site), challengers=MOST_CHALLENGERS)
        suite = Suite(name=FORUM, environment=FORUM, tasks=(SuiteTask(id="forum.post", plan=POST),))
        register_suite(house.store, house.views(), suite, "test")
        open_site(house, FORUM, "forum.post", POST, challengers=MOST_CHALLENGERS)

    def do(self, deed: Deed) -> None:
        match deed:
            case ("hint", site, _):
                self.acts[learn_hint(self.house, f"h-{len(self.acts)}", site)] = frozenset({site})
            case ("rewrite", site, _):
                self.acts[learn_rewrite(self.house, f"rw-{len(self.acts)}", OWN_STEPS[site])] = frozenset({site})
            case ("shared", _, _):
                self.acts[learn_rewrite(self.house, f"rw-{len(self.acts)}", START)] = SITES
            case ("judge" | "weights" as kind, site, promotes):
                self.judge(site, TRAINED if kind == "weights" else None, promotes=promotes)
            case ("point", _, _):
                whole, blob = build_memory_artifact(self.house.views(), "base")
                self.house.blobs.put([blob])
                point(self.house.store, self.house.views(), whole, "known to be right", "ann")
            case _:
                with suppress(NothingBefore):
                    back(self.house.store, self.house.views(), "it broke", "ann")

    def judge(self, site: str, weights: str | None, *, promotes: bool) -> None:
        """An evaluation of what a site may judge now, if that is anything."""
        offered, blob = challenger_on(self.house, self.house.views(), KINDS, site)
        self.house.blobs.put([blob])
        challenger = offered if weights is None else offered.model_copy(update={"weights": weights})
        champion = present_champion(self.house.views()).pointed_artifact()
        if (challenger.weights, challenger.memory.digest) != (champion.weights, champion.memory.digest):
            judge_here(self.house, site, promotes=promotes, challenger=challenger)

    def pieces(self, artifact: Artifact) -> dict[str, object]:
        return dict(entries_of(self.house.blobs.get(artifact.memory.digest).body))

    def check(self) -> None:
        """Read the log alone: whatever entered a champion by the gate had a promoting verdict of each of its sites."""
        benchmarks, promoted = {f"{site}-1": site for site in SITES}, list[tuple[str, Artifact, Artifact]]()
        opened: dict[str, EvaluationOpened] = {}
        champion: Artifact | None = None
        for event in (recorded.event for recorded in self.house.store.read()):
            match event:
                case EvaluationOpened():
                    opened[event.evaluation] = event
                case VerdictReached() if event.verdict.decision == "promote":
                    judged = opened[event.evaluation]
                    promoted.append((benchmarks[judged.benchmark], judged.champion, judged.challenger))
                case ChampionPointed():
                    if event.by == "gate" and champion is not None:
                        self._check_move(champion, event.artifact, promoted)
                    champion = event.artifact

    def _check_move(
        self, before: Artifact, after: Artifact, promoted: Iterable[tuple[str, Artifact, Artifact]]
    ) -> None:
        held, holds = self.pieces(before), self.pieces(after)
        for name in (name for name, content in holds.items() if held.get(name) != content):
            judges = {
                site
                for site, champion, challenger in promoted
                if self.pieces(challenger).get(name) not in {None, self.pieces(champion).get(name)}
            }
            assert judges >= self.acts[name], name
        if before.weights != after.weights:
            assert {site for site, _, challenger in promoted if challenger.weights == after.weights} >= SITES


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example([("shared", SHOP, True), ("hint", DESK, True), *EACH_SITE, ("back", SHOP, True), *EACH_SITE])
@example([("rewrite", SHOP, True), *TRAINED_EVERYWHERE, ("judge", SHOP, False), ("point", SHOP, True)])
@given(deeds=st.lists(DEEDS, min_size=4, max_size=8))
def test_every_piece_that_the_gate_lets_in_was_judged_on_each_site_where_it_acts(
    house_from: HouseFrom, deeds: list[Deed]
) -> None:
    history = History(house_from("empty"))
    for deed in deeds:
        history.do(deed)
    history.check()
