"""The actions that a policy without pages is offered, read back from its system prompt."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from agents.envs.episodes.episode import ActionSpec, Argument
from agents.executors.actions import system_prompt
from agents.executors.open_actions import actions_in, is_single_answer, open_system_prompt
from agents.executors.policy import guided_prompt

ABOUT = st.text('ab {}"\n;:“”-.', max_size=30)
NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
ACTIONS = st.lists(
    st.builds(ActionSpec, NAMES, ABOUT, st.sampled_from(get_args(Argument))),
    min_size=1,
    max_size=4,
    unique_by=lambda each: each.name,
).map(tuple)


@given(ACTIONS, st.sampled_from(["", "Look twice."]))
def test_the_actions_of_a_prompt_are_those_that_it_was_made_of(actions: tuple[ActionSpec, ...], guidance: str) -> None:
    prompt = guided_prompt(open_system_prompt(actions), guidance)
    only = actions[0].name if is_single_answer(actions) else "other"
    assert actions_in(prompt, only) == actions


def test_other_prompts_have_no_actions() -> None:
    assert actions_in(system_prompt("text"), "x") == actions_in("You do it.", "x") == actions_in("", "x") == ()
