"""What one task taught is tried on others and on a sibling of its site, and promoted where runs pass by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from agents.envs.clients.client import EnvClient
from agents.executors.policy import PolicyExecutor
from agents.learning.memory import content_reader, load_piece
from agents.learning.occasions import OccasionPiece
from agents.models.scripted import Scripted
from api.house import House
from api.sweeps.plan import first_facts
from benchmarks.demo_agents.learning import Case, Sizes, learn
from benchmarks.demo_sites import FIRST_SEALED
from eventlog.events import PieceKind
from projections.memories import candidacies
from tests.desks.grammar import DeskKind
from tests.desks.serving import serve_desk
from tests.desks.site import template_of
from tests.desks.words import CLINIC
from tests.followers import Follower

DESK = DeskKind(CLINIC, ("missing prerequisite",))
KINDS: Final = frozenset[PieceKind]({"exemplar"})
SIZES: Final = Sizes(found=6, tried=8, sealed=0, rounds=3)
LEARNED, LIKE_IT, HOPELESS = "appointments", "other appointments", "hasty appointments"


def case_of(client: EnvClient, cluster: str, desk: DeskKind = DESK, explores: float = 0.0) -> Case:
    """The site's task in a cluster; in that of the hopeless one there is no time for what a lesson tells."""
    plain = template_of(desk)
    steps = 2 if cluster == HOPELESS else plain.max_steps
    task = plain.model_copy(update={"template_id": cluster.replace(" ", "_"), "cluster": cluster, "max_steps": steps})
    agent = PolicyExecutor(Scripted(Follower(task.plan_steps, task.instruction, explores)))
    return Case("", desk.words.site, task, client, agent, agent, (), FIRST_SEALED, is_control=False)


def exemplars(house: House) -> list[tuple[tuple[str, str | None, str], OccasionPiece]]:
    """The lessons by contrast, each with the site and cluster that it is of and what became of it."""
    states = candidacies(house.views())
    loaded = [(state.status, load_piece(state, content_reader(house.blobs))) for state in states.values()]
    return [
        ((piece.occasion.environment, piece.occasion.cluster, status), piece)
        for status, piece in loaded
        if isinstance(piece, OccasionPiece)
    ]


def test_a_lesson_of_one_task_is_tried_on_others_and_promoted_where_runs_pass_by_it(empty_house: House) -> None:
    house = empty_house
    first_facts(house)
    with serve_desk(DESK) as site, EnvClient(site.admin_url, site.admin_token) as client:
        learn(house, case_of(client, LEARNED, explores=0.35), KINDS, SIZES, "first")
        assert [place for place, _ in exemplars(house)] == [(CLINIC.site, LEARNED, "promoted")]
        for cluster in (LIKE_IT, HOPELESS):
            learn(house, case_of(client, cluster), KINDS, SIZES, cluster.split()[0])
    sibling = replace(DESK, words=replace(CLINIC, site="surgery"))
    with serve_desk(sibling) as site, EnvClient(site.admin_url, site.admin_token) as client:
        learn(house, case_of(client, LEARNED, sibling), KINDS, SIZES, "sibling")
    found = exemplars(house)
    promoted = [(place, piece) for place, piece in found if place[-1] == "promoted"]
    assert sorted(place for place, _ in promoted) == [
        (CLINIC.site, LEARNED, "promoted"),
        (CLINIC.site, LIKE_IT, "promoted"),
        ("surgery", LEARNED, "promoted"),
    ]
    assert len({piece.text for _, piece in promoted}) == 1
    assert len({piece.piece for _, piece in promoted}) == len(promoted)
    assert all(piece.wins > 0 for _, piece in promoted)
    hopeless = {piece.piece for (_, cluster, _), piece in found if cluster == HOPELESS}
    tried = {getattr(each.event, "piece", "") for each in house.store.read(types=["PieceTried"])}
    assert hopeless
    assert hopeless <= tried
