"""The tools of a site as actions: their names."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from agents.executors.open_actions import open_step
from agents.executors.site_tools import actions_by_name
from eventlog.events import ActionName


def test_each_tool_has_an_action_of_its_own_that_a_step_can_name_whatever_it_is_called() -> None:
    tools = ["get-order", "getOrder", "get_order", "finish", "a/b", "Straße", "3d", "…", "x" * 90, "x" * 91]
    found = actions_by_name(tools)
    assert [*found] == tools
    assert list(found.values())[:8] == [
        "get_order",
        "get_order_2",
        "get_order_3",
        "finish_2",
        "a_b",
        "stra_e",
        "tool_3d",
        "tool",
    ]
    assert len({*found.values()}) == len(tools)
    for action in found.values():
        assert TypeAdapter(ActionName).validate_python(action) == action
        assert open_step(action, None).action == action


@pytest.mark.parametrize("name", ["list_jackets", "buy", "a1"])
def test_a_tool_in_snake_case_keeps_its_name(name: str) -> None:
    assert actions_by_name([name]) == {name: name}
