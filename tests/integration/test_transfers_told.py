"""What was learned on one task is tried on others, and promoted only where it helps, by real sweeps of a policy."""

from __future__ import annotations

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
LEARNED, LIKE_IT, HOPELESS = "appointments", "other appointments", "hasty appointments"


def case_of(client: EnvClient, cluster: str, explores: float = 0.0) -> Case:
    """The site's task in a cluster; in that of the hopeless one there is no time for what a lesson tells."""
    plain = template_of(DESK)
    steps = 2 if cluster == HOPELESS else plain.max_steps
    task = plain.model_copy(update={"template_id": cluster.replace(" ", "_"), "cluster": cluster, "max_steps": steps})
    agent = PolicyExecutor(Scripted(Follower(task.plan_steps, task.instruction, explores)))
    return Case("", CLINIC.site, task, client, agent, agent, (), FIRST_SEALED, is_control=False)


def exemplars(house: House) -> dict[tuple[str | None, str], OccasionPiece]:
    """The lessons by contrast, by the cluster that they are of and what became of them."""
    states = candidacies(house.views())
    loaded = [(state.status, load_piece(state, content_reader(house.blobs))) for state in states.values()]
    return {(piece.occasion.cluster, status): piece for status, piece in loaded if isinstance(piece, OccasionPiece)}


def test_a_lesson_of_one_task_is_tried_on_others_and_promoted_only_where_it_helps(empty_house: House) -> None:
    house, kinds = empty_house, frozenset[PieceKind]({"exemplar"})
    first_facts(house)
    sizes = Sizes(found=6, tried=8, sealed=0, rounds=3)
    with serve_desk(DESK) as site, EnvClient(site.admin_url, site.admin_token) as client:
        learn(house, case_of(client, LEARNED, explores=0.35), kinds, sizes, "first")
        learned = exemplars(house)
        assert (LEARNED, "promoted") in learned
        for cluster in (LIKE_IT, HOPELESS):
            assert not any(place == cluster for place, _ in exemplars(house))
            learn(house, case_of(client, cluster), kinds, sizes, cluster.split()[0])
    found = exemplars(house)
    copy, lesson = found[LIKE_IT, "promoted"], learned[LEARNED, "promoted"]
    assert (copy.text, copy.occasion.environment) == (lesson.text, CLINIC.site)
    assert copy.piece != lesson.piece
    assert copy.wins > 0
    assert (HOPELESS, "promoted") not in found
    tried = [each.event for each in house.store.read(types=["PieceTried"])]
    of_hopeless = {piece.piece for (cluster, _), piece in found.items() if cluster == HOPELESS}
    assert of_hopeless
    assert any(getattr(event, "piece", "") in of_hopeless for event in tried)
