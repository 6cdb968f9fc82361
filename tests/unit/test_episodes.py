"""Environments that are no web sites: questions of reasoning-gym and a world of MiniGrid, played through the policy."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from agents.envs.episodes.environment import EpisodeEnvironment
from agents.envs.episodes.episode import ActionSpec, EpisodeKind, Turn, UnfitArgument, reward_in_micro
from agents.envs.episodes.errors import LibraryMissing, UnknownEnvironment
from agents.envs.episodes.names import is_episode_name, parse_episode_name
from agents.envs.episodes.opening import open_episodes
from agents.envs.errors import InstanceClosed, NoPages, TaskNotGraded
from agents.envs.probing.probes import report
from agents.executors.episodes.kit import episodes_target
from agents.executors.episodes.surface import on_episodes
from agents.executors.executor import Assignment, Execution
from agents.executors.open_actions import OPEN_PROMPT_VERSION, open_schema, open_system_prompt
from agents.executors.plan import PlanExecutor
from agents.executors.policy import PolicyExecutor
from agents.models.model import CompletionRequest, Schema
from agents.models.scripted import Scripted
from agents.rollouts.facts import execution_facts
from eventlog.chain import digest
from eventlog.events import Step, StepTaken

SUMS = "reasoning-gym.chain_sum.max_digits-1.max_terms-2"
GRID = "gymnasium.minigrid.MiniGrid-DoorKey-5x5-v0"


def play(
    environment: EpisodeEnvironment, script: Callable[[CompletionRequest], str], seed: int = 3, steps: int = 5
) -> tuple[Execution, bool, Scripted]:
    """Play an instance with a scripted model through the policy; the execution, whether it passed, and the model."""
    model = Scripted(script)
    instance = environment.reset(seed)
    executor = PolicyExecutor(model, opening=on_episodes(environment))
    done = executor.execute(Assignment(environment.kind.instruction, (), steps), instance)
    return done, environment.oracle(instance, environment.name).passed, model


def test_a_question_is_answered_once_with_the_whole_answer() -> None:
    with open_episodes(SUMS) as environment:
        question = environment.observe(environment.reset(3))
        terms = [int(word) for word in question.replace("=", " ").split() if word.isdecimal()]
        right = str(terms[0] + terms[1]) if "+" in question else str(terms[0] - terms[1])
        done, passed, model = play(environment, lambda _: f" {right}\n")
        assert (passed, done.status, len(done.taken), len(model.requests)) == (True, "completed", 1, 1)
        assert done.taken[0].step == Step(type="act", intent="take the action answer", label="answer", value=right)
        assert question in model.requests[0].messages[1].text
        assert model.requests[0].schema is None
        assert not play(environment, lambda _: f"{right}0")[1]
        assert not play(environment, lambda _: f"It is {right}.")[1]


def test_an_answer_taken_whole_can_be_asked_for_under_a_schema() -> None:
    number = Schema("number", {"type": "integer"})
    with open_episodes(SUMS) as environment:
        model = Scripted(lambda _: "7")
        executor = PolicyExecutor(model, opening=on_episodes(environment), text_schema=number)
        executor.execute(Assignment(environment.kind.instruction, (), 1), environment.reset(3))
    assert [request.schema for request in model.requests] == [number]


def test_what_was_answered_is_recorded_with_its_open_name_and_its_argument_as_a_blob() -> None:
    with open_episodes(SUMS) as environment:
        done, _, _ = play(environment, lambda _: "17")
    facts = execution_facts("r", done)
    (taken,) = [event for event in facts.events if isinstance(event, StepTaken)]
    bodies = {blob.digest: (blob.media_type, blob.body) for blob in facts.blobs}
    assert (taken.action, taken.schema_version) == ("answer", 2)
    assert bodies[taken.argument or ""] == ("text/plain; charset=utf-8", b"17")
    asked = Step(type="act", intent="ask", label="sql", value='{"query": "select 1"}')
    assert "select" not in taken.model_dump_json()
    assert asked.action == "sql"


def test_an_action_needs_a_name_and_only_an_act_has_an_open_one() -> None:
    with pytest.raises(ValueError, match="name of an action"):
        Step(type="act", intent="", label="Drop Table")
    assert Step(type="click", intent="", label="Buy now").action == "click"


def test_instances_are_made_by_seed_apart_from_each_other_and_new_after_a_reset() -> None:
    with open_episodes(SUMS) as environment:
        one, same, other = (environment.reset(seed) for seed in (1, 1, 2))
        start = environment.state(one)
        assert start.fingerprint == environment.state(same).fingerprint != environment.state(other).fingerprint
        environment.act(one, "answer", "5")
        assert [each.operation for each in environment.mutations(one)] == ["answer"]
        assert environment.state(one) != start
        assert environment.state(same) == start
        assert environment.act(one, "answer", "6") == Turn(environment.observe(one), 0, is_over=True)
        environment.reset(1, instance=one)
        assert (environment.state(one), environment.mutations(one)) == (start, ())
        environment.close(one)
        with pytest.raises(InstanceClosed):
            environment.state(one)
        with pytest.raises(TaskNotGraded):
            environment.oracle(same, "other")


def test_an_instance_without_pages_says_so_to_an_executor_of_pages() -> None:
    with open_episodes(SUMS) as environment, pytest.raises(NoPages, match="policy"):
        PlanExecutor().execute(Assignment("", (), 1), environment.reset(0))


@pytest.mark.parametrize("name", [SUMS, GRID, "reasoning-gym.letter_counting"])
def test_environments_of_others_pass_the_probes_of_a_site(name: str) -> None:
    with open_episodes(name) as environment:
        found = report(episodes_target(environment, seeds=(0, 1, 10_000), rng_seed=0))
    outcomes = {each.name: each.outcome for each in found.probes}
    assert "failed" not in outcomes.values(), found.probes
    passed = {"null_agent", "random_agent", "grading_only_looks", "two_seeds", "repeat_without_reset", "side_by_side"}
    assert {each for each, outcome in outcomes.items() if outcome == "passed"} >= passed | {"mutations_by_id"}
    assert outcomes["oracle_agent"] == ("skipped" if name == GRID else "passed")
    assert len({each.fingerprint for each in found.fingerprints}) == 3


def test_a_world_takes_its_actions_by_name_until_it_is_over() -> None:
    with open_episodes(GRID) as environment:
        assert [each.name for each in environment.kind.actions][:3] == ["left", "right", "forward"]

        def choose(request: CompletionRequest) -> str:
            said = sum(message.role == "assistant" for message in request.messages)
            actions = ("forward", "fly", "left", "pickup", "finish")
            return json.dumps({"why": "", "action": actions[said], "argument": ""})

        done, passed, model = play(environment, choose, steps=9)
        assert [taken.step.action for taken in done.taken] == ["forward", "left", "pickup", "finish"]
        assert (passed, done.status) == (False, "completed")
        assert "The actions are left, right" in model.requests[2].messages[-1].text
        assert model.requests[0].schema == open_schema(environment.kind.actions)
        assert environment.kind.instruction == "use the key to open the door and then get to the goal"


def test_rewards_add_up_and_the_threshold_decides() -> None:
    """A coin that pays a third for each of three turns."""

    class Coin:
        observation = "a coin"
        solution = None

        def __init__(self) -> None:
            self.turns = 0

        def act(self, action: str, argument: str | None) -> Turn:
            if argument != "heads":
                raise UnfitArgument("heads only")
            self.turns += 1
            return Turn(f"turn {self.turns}", 400_000, is_over=self.turns == 3)

        def sample_action(self, rng: object) -> tuple[str, str | None]:
            return "bet", "heads"

        def close(self) -> None:
            pass

    kind = EpisodeKind("coin", "bet", (ActionSpec("bet", "bet"),), lambda _: Coin(), threshold_micro=700_000)
    with EpisodeEnvironment(kind) as environment:
        instance, scores = environment.reset(0), []
        for _ in range(3):
            graded = environment.oracle(instance, "coin")
            scores.append((graded.score_micro, graded.passed))
            environment.act(instance, "bet", "heads")
        assert scores == [(0, False), (400_000, False), (800_000, True)]
        assert environment.oracle(instance, "coin").score_micro == 1_000_000
        done, passed, _ = play(environment, lambda _: "tails", steps=2)
        assert [taken.outcome for taken in done.taken] == ["invalid_argument", "invalid_argument"]
        assert not passed
    with pytest.raises(ValueError, match="finite"):
        reward_in_micro(float("nan"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("reasoning-gym.no_such_set", "not registered"),
        ("reasoning-gym.chain_sum.min_terms-0", "min_terms must be positive"),
        ("reasoning-gym.chain_sum.colour-red", "colour"),
        ("reasoning-gym.chain_sum.seed-4", "it sets seed"),
        ("reasoning-gym.chain_sum.min_terms-2.max_terms-3", "in the order of their names"),
        ("reasoning-gym.", "its name cannot be read"),
        ("reasoning-gym.a__b", "its name cannot be read"),
        ("gymnasium.NoSuchWorld-v0", "NoSuchWorld"),
        ("gymnasium.no_such_module.World-v0", "no_such_module"),
        ("openenv.echo", "no address was given"),
    ],
)
def test_a_name_that_makes_no_environment_is_refused_in_one_sentence(name: str, said: str) -> None:
    with pytest.raises(UnknownEnvironment) as refused:
        open_episodes(name)
    assert said in str(refused.value)


def test_a_name_says_everything_about_its_instances() -> None:
    parts = parse_episode_name(SUMS)
    assert (parts.source, parts.id, parts.settings) == ("reasoning-gym", "chain_sum", {"max_digits": 1, "max_terms": 2})
    world = parse_episode_name("gymnasium.ale_py.ALE--Pong-v5.frameskip-4.repeat_action_probability-5e-1")
    assert (world.module, world.id) == ("ale_py", "ALE/Pong-v5")
    assert world.settings == {"frameskip": 4, "repeat_action_probability": 0.5}
    assert is_episode_name(GRID)
    assert not is_episode_name("marketplace")


@pytest.mark.parametrize(("name", "library"), [(SUMS, "reasoning_gym"), (GRID, "gymnasium")])
def test_a_missing_library_is_named_with_its_extra(name: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(LibraryMissing, match=r"flywheel\["):
        open_episodes(name)


def test_the_prompt_of_open_actions_has_a_version_that_changes_with_it() -> None:
    one = (ActionSpec("answer", "give the result"),)
    many = (*one, ActionSpec("sql", "ask the database", "json"), ActionSpec("left", "turn left", "none"))
    found = digest([open_system_prompt(one), open_system_prompt(many)]).hex()[:16]
    assert (OPEN_PROMPT_VERSION, found) == ("open-1", "fbd8bd2370f73f12")
