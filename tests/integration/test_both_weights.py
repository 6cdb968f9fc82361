"""Both loops with a model: one that does not serve the weights that the slow loop trains is refused at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from agents.executors.outside.agent_spec import AgentSpec, read_agent
from api.cli.run_slow import refuse_other_weights
from api.house import House
from api.sweeps.executors import Way
from tests.tiny import make_base

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def test_a_model_of_other_weights_than_the_slow_loop_trains_is_refused(empty_house: House, tmp_path: Path) -> None:
    base = make_base(tmp_path / "bases")

    def refuse(
        executor: Way = Way.POLICY, *, named: bool = True, agent: AgentSpec | None = None, **settings: str
    ) -> None:
        house = replace(empty_house, settings=empty_house.settings.model_copy(update=settings))
        refuse_other_weights(house, executor, str(base.path) if named else None, agent)

    refuse(Way.PLAN, named=False)
    refuse(model=f"transformers:{base.path}")
    refuse(model="m1", model_base=base.digest)
    cases: tuple[tuple[dict[str, Any], bool], ...]
    cases = ({}, True), ({"model_base": "e" * 64}, True), ({"model_base": base.digest}, False)
    for settings, named in cases:
        with pytest.raises(typer.BadParameter, match="both loops play the same weights"):
            refuse(named=named, model="m1", **settings)
    (tmp_path / "asking.py").write_text("def play(task): ...\n", "utf-8")
    agent = read_agent("python:asking:play", tmp_path)
    with pytest.raises(typer.BadParameter, match="but --agent plays those of no model that the settings name"):
        refuse(Way.PLAN, agent=agent, model_base=base.digest)
    refuse(Way.PLAN, agent=agent, model=f"transformers:{base.path}")
    assert list(empty_house.store.read()) == []
