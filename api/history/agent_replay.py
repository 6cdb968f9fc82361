"""Play the run of an agent of one's own again: its site and its model are answered from the record.

The agent is a process, as it was, within today's limits: it is told the same task, and asks addresses on this machine.
No site is started, no model is called and nothing is written. What it asks anybody else is its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeGuard

from agents.envs.contract import Instance
from agents.executors.outside.agent_spec import AgentSpec, model_in
from agents.executors.outside.recorded_site import serve_record
from agents.executors.site_record import SiteRecord, read_site_record
from agents.learning.advice import READERS, advice_lines
from agents.learning.guidance import guidance_text
from agents.rollouts.agent_replay import TRUSTED, PlayedAgain
from agents.rollouts.recording import Recording
from agents.rollouts.replay import Replayed, answer_erased, replay_recording
from eventlog.blobs import BlobStore
from eventlog.errors import BlobErased
from eventlog.events import AnyEvent, ArmRun, EvaluationOpened, RunStarted, SiteRecorded, SweepPlanned
from eventlog.store import EventStore, Recorded
from gate.ledger import BENCHMARK
from projections.runs import AGENT

from ..errors import NotReplayable
from ..house import House
from ..settings import Settings
from ..sweeps.agents import without_model
from .replay import recording_of

_OTHER: Final = "that this is the agent of the record: its option or its files are other ones"
_UNKNOWN: Final = "that this is the agent of the record: its sweep does not say which one it was"


def replay_agent(house: House, settings: Settings, run: str, agent: AgentSpec) -> Replayed:
    """Play an agent's run again by the agent. The outcome is *erased* if a blob it needs was erased.

    Raises Unknown, NotReplayable, BlobMissing, BlobDamaged, EmbeddingsMissing, EmbeddingsOther, BadSetting,
    AgentChanged, WardenNotStarted.
    """
    events = tuple(house.store.read(stream=f"run/{run}"))
    started = next((item.event for item in events if isinstance(item.event, RunStarted)), None)
    if started is not None and started.executor != AGENT:
        raise NotReplayable(run=run, actual=f"its executor is {started.executor!r}, and --agent plays agents")
    try:
        recording = recording_of(house.store, house.blobs, house.views, run, house.embeddings_of)
        site = _site_of(run, house.blobs, events)
        again = _play_again(recording, site, agent, settings, _texts(house.blobs, recording))
    except BlobErased as error:
        return answer_erased(run, str(error.facts["actual"]))
    doubt = _doubt(house.store, recording.started, agent)
    return replay_recording(recording, again=replace(again, trusted=(*TRUSTED, *doubt)))


def _site_of(run: str, blobs: BlobStore, events: Sequence[Recorded]) -> SiteRecord:
    """What was kept of the run's site and model. Raises NotReplayable if nothing was, or not all of it."""
    kept = next((item.event for item in events if isinstance(item.event, SiteRecorded)), None)
    if kept is None:
        said = (
            "nothing that its site answered was kept; set FLYWHEEL_RECORD_SITE=1 for runs that are played from now on "
            "(a site behind TLS is never recorded)"
        )
        raise NotReplayable(run=run, actual=said)
    if not kept.is_whole:
        raise NotReplayable(run=run, actual="its site and its model answered more than is kept of one run")
    return read_site_record(kept.record, blobs.get(kept.record))


def _play_again(
    recording: Recording, record: SiteRecord, agent: AgentSpec, settings: Settings, texts: Mapping[str, str]
) -> PlayedAgain:
    """Play the agent, told what memory tells it now, and answered from the record."""
    kept = recording.kept
    told = () if kept is None or kept.told is None else kept.told(READERS)
    with serve_record(record) as site:
        executor = replace(
            without_model(agent, settings), opening=site.open_model, records_site=False, told=site.facts()
        )
        where = Instance.model_validate({"seed": 0, "instance": "recorded", "url": site.urls.get("pages")})
        execution = executor.execute(recording.assignment(advice_lines(told), guidance_text(told)), where)
        return PlayedAgain(
            execution, site.other, site.list_unasked(), site.given, record.acted, texts, swap_out=site.swap_out
        )


def _texts(blobs: BlobStore, recording: Recording) -> Mapping[str, str]:
    """The texts that the run's steps name, by address."""
    given = {step.argument for step in recording.steps if step.argument is not None}
    arguments = {address: blobs.get(address).body.decode("utf-8", "replace") for address in given}
    return {**recording.texts, **arguments}


def _doubt(store: EventStore, started: RunStarted, agent: AgentSpec) -> tuple[str, ...]:
    """What is to be said of whether this agent is the recorded one; empty if it is.

    What planned the run says before which model it played, which is a part of its name.
    """
    arm = started.arm
    stream = f"sweep/{started.spec.sweep}" if arm is None else BENCHMARK.format(arm.benchmark)
    events = (item.event for item in store.read(stream=stream, types=["SweepPlanned", "EvaluationOpened"]))
    planned = next((event for event in events if _is_of(event, arm)), None)
    if planned is None:
        return (_UNKNOWN,)
    model = model_in(planned.model or "")
    name = (agent.with_model(model) if model else agent).recorded_name
    return () if planned.executor == name else (_OTHER,)


def _is_of(event: AnyEvent, arm: ArmRun | None) -> TypeGuard[SweepPlanned | EvaluationOpened]:
    """True for what planned a run of this arm, or of a sweep."""
    if isinstance(event, EvaluationOpened):
        return arm is not None and event.evaluation == arm.evaluation
    return isinstance(event, SweepPlanned)
