"""Who plays an evaluation: one executor by one model, in both arms."""

from __future__ import annotations

from agents.executors.executor import Executor
from eventlog.events import EvaluationOpened
from gate.promote import find_opening
from projections.runs import PLANLESS, is_agent

from ..errors import OtherExecutor
from ..house import House
from ..sweeps.executors import describe_executor, model_variable, options_of, recorded_as


def refuse_other_player(house: House, evaluation: str, executor: Executor) -> EvaluationOpened:
    """Return how it was opened, and raise OtherExecutor if that was for another executor or for another model of it.

    One must play both arms. Evaluations of before models were recorded are played by any.
    """
    opened, (name, model) = find_opening(house.store, evaluation), recorded_as(executor)
    is_other_model = opened.model not in {None, model}
    if opened.executor != name or is_other_model:
        raise OtherExecutor(
            what=f"The evaluation {evaluation}",
            expected=_describe_player(opened.executor, opened.model if is_other_model else None),
            actual=_describe_player(name, model if is_other_model else None),
            way_out=f"Run `{_command(opened, with_model=is_other_model)}`.",
        )
    return opened


def _command(opened: EvaluationOpened, *, with_model: bool) -> str:
    """The command that goes on with an evaluation.

    If the arms have the same weights, the fast loop opened it, else the slow one. That one serves a base of its own, so
    where the model has to be another one (`with_model`), `flywheel gate run` goes on.
    """
    options, model = options_of(opened), model_variable(opened) if with_model else ""
    if opened.champion.weights == opened.challenger.weights:
        return f"{model}flywheel run {options}"
    if with_model:
        of = f"--benchmark {opened.benchmark} --challenger {opened.challenger}"
        return f"{model}flywheel gate run {of} {options}"
    if is_agent(opened.executor):
        return f"flywheel run --loop slow {options} --base FOLDER"
    return f"flywheel run {'--loop slow' if opened.executor in PLANLESS else options}"


def _describe_player(executor: str | None, model: str | None) -> str:
    named = describe_executor(executor)
    return named if model is None else f"{named} ({model})"
