"""Recovery looks at the pages that an agent of one's own failed on, and the agent is told what it found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from agents.envs.clients.client import EnvClient
from agents.executors.outside.agent_spec import read_agent
from agents.learning.memory import content_reader, load_piece
from agents.learning.occasions import OccasionPiece
from api.house import House
from api.settings import Settings
from api.sweeps.agents import without_model
from api.sweeps.plan import first_facts
from benchmarks.demo_agents.learning import Case, Sizes, learn
from benchmarks.demo_sites import FIRST_SEALED
from eventlog.events import PieceKind
from projections.memories import candidacies
from projections.rewards import REWARDS
from projections.runs import RUNS
from tests.desks.grammar import DeskKind
from tests.desks.serving import serve_desk
from tests.desks.site import template_of
from tests.desks.words import CLINIC

DESK: Final = DeskKind(CLINIC, ("missing prerequisite",))
AGENT: Final = '''
"""Walks a plan, and ticks each box that it was told of before it sends. It reports its steps."""

import json
import re
from pathlib import Path

from agents.envs.clients.session import Session
from agents.executors.surface import HttpSurface
from eventlog.events import Step


def play(task):
    plan = [Step(**step) for step in json.loads(Path("plan.json").read_text())]
    told = re.findall(r"choose 'checked' at '([^']+)'", " ".join(task.advice))
    boxes = [Step(type="select_option", intent="tick it", label=box, value="checked") for box in told]
    with Session(task.url, headers=task.page_headers) as session:
        surface = HttpSurface(session)
        for step in [*plan[:-1], *boxes, plan[-1]]:
            acted = surface.act(step)
            details = {"url": step.url, "label": step.label, "value": step.value, "text": surface.text()}
            task.step(step.type, outcome=acted.outcome, **{name: found for name, found in details.items() if found})
'''


def test_an_agent_is_told_what_recovery_found_on_the_page_where_its_run_failed(
    empty_house: House, tmp_path: Path
) -> None:
    house, task, kinds = empty_house, template_of(DESK), frozenset[PieceKind]({"hint"})
    first_facts(house)
    (tmp_path / "walker.py").write_text(AGENT, "utf-8")
    plan = [step.model_dump(exclude_none=True) for step in task.plan_steps]
    (tmp_path / "plan.json").write_text(json.dumps(plan), "utf-8")
    agent = without_model(read_agent("python:walker:play", tmp_path), Settings())
    with serve_desk(DESK) as site, EnvClient(site.admin_url, site.admin_token) as client:
        case = Case("", CLINIC.site, task, client, agent, agent, (), FIRST_SEALED, is_control=False)
        learn(house, case, kinds, Sizes(found=1, tried=1, sealed=0, rounds=1))
    loaded = (load_piece(state, content_reader(house.blobs)) for state in candidacies(house.views()).values())
    hints = [piece for piece in loaded if isinstance(piece, OccasionPiece) and piece.kind == "hint"]
    assert any(f"choose 'checked' at '{CLINIC.prerequisite}'" in hint.text for hint in hints)
    runs, rewards = house.views().find(RUNS), house.views().find(REWARDS)
    passed = {(bool(state.applied), rewards[run].passed) for run, state in runs.items()}
    assert passed == {(False, False), (True, True)}
