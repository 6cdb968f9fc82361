"""Trial results: compare a run that tried one piece of memory with its control runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from eventlog.events import AnyEvent, PieceTried, RewriteLost, RewriteWon, Spec
from eventlog.store import Append
from projections.candidacy import Candidacy
from projections.memories import piece_kind
from projections.rewards import RewardState
from projections.runs import RunState


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcome of each run of a finished sweep, keyed by run id."""

    runs: Mapping[str, RunState]
    rewards: Mapping[str, RewardState]
    contaminated: Set[str]

    def has_passed(self, run: str) -> bool | None:
        """True if a run passed its oracle; None if its outcome does not count.

        The outcome of a missing run, a contaminated run or a run of an evaluation does not count.
        """
        state, reward = self.runs.get(run), self.rewards.get(run)
        if state is None or reward is None or state.evaluation is not None or run in self.contaminated:
            return None
        return reward.passed

    def has_carried(self, run: str, piece: str) -> bool:
        """True if a piece changed the plan of a run."""
        return run in self.runs and piece in self.runs[run].applied


def credits_of(
    specs: Sequence[Spec], outcomes: Outcomes, pieces: Mapping[str, Candidacy], actor: str
) -> tuple[Append, ...]:
    """One append for each trial, in the order of the sweep's groups.

    The controls are the plain siblings of lowest index, as many as the piece's rule asks for. A trial does not count
    if one of these runs is missing, contaminated or part of an evaluation, if the candidate changed nothing in the run
    that carried it, or if the withheld piece changed nothing in a control. The append key is made from the run, so
    crediting a sweep twice changes nothing.
    """
    plain: dict[str, list[Spec]] = {}
    for spec in sorted(specs, key=lambda spec: spec.sibling_index):
        if spec.is_plain:
            plain.setdefault(spec.group_id, []).append(spec)
    appends = []
    for spec in specs:
        piece = spec.candidate or spec.withheld or ""
        state = pieces.get(piece)
        if state is None:
            continue
        controls = tuple(each.spec_id for each in plain.get(spec.group_id, [])[: state.controls])
        event = _trial(spec, piece, controls, state, outcomes)
        if event is not None:
            appends.append(Append(f"{piece_kind(state)}/{piece}", (event,), actor, key=f"credit:{spec.spec_id}"))
    return tuple(appends)


def _trial(spec: Spec, piece: str, controls: tuple[str, ...], state: Candidacy, outcomes: Outcomes) -> AnyEvent | None:
    """Event of the trial; None if the trial does not count."""
    run = spec.spec_id
    passed, known = outcomes.has_passed(run), [outcomes.has_passed(control) for control in controls]
    if passed is None or None in known or len(controls) < state.controls:
        return None
    carrying = controls if spec.candidate is None else (run,)
    if not carrying or not all(outcomes.has_carried(each, piece) for each in carrying):
        return None
    if any(outcomes.has_carried(each, piece) for each in {run, *controls} - {*carrying}):
        return None
    successes, kind = sum(outcome is True for outcome in known), piece_kind(state)
    if spec.candidate is not None and kind == "rewrite":
        event = RewriteWon if passed else RewriteLost
        return event(rewrite=piece, run=run, control_runs=controls, control_successes=successes, env_seed=spec.env_seed)
    return PieceTried(
        piece=piece,
        kind=kind,
        run=run,
        control_runs=controls,
        control_successes=successes,
        won=passed,
        withheld=spec.candidate is None,
        env_seed=spec.env_seed,
    )
