"""Jobs played side by side under a progress bar, each of them recorded as it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from agents.envs.client import EnvClient
from agents.learning.memory import piece_of, pieces_from
from agents.plans import Piece
from agents.rollouts.dispatch import Call, Dispatch
from agents.rollouts.play import Job
from agents.rollouts.record import rollout
from eventlog.events import Artifact, Spec, SweepPlanned
from projections.rewrites import REWRITES
from projections.views import Views

from .decide import Course, known, prices
from .house import House


class Reporter(Protocol):
    """Where progress is shown."""

    def phase(self, title: str, total: int) -> AbstractContextManager[Callable[[], None]]:
        """A phase of `total` steps; the function it gives counts one."""
        ...

    def say(self, text: str) -> None:
        """One line about what has happened."""
        ...


def pieces_of(house: House, artifact: Artifact) -> tuple[Piece, ...]:
    """What an artifact remembers. Raises BlobMissing."""
    return pieces_from(house.blobs.get(artifact.memory.digest).body)


def jobs_of(house: House, views: Views, sweep: SweepPlanned, specs: Sequence[Spec]) -> list[Job]:
    """Some specs of a sweep, each with all that its run needs to know. Raises BlobMissing, FactMissing."""
    by_id = {template.template_id: template for template in sweep.templates}
    pieces = pieces_of(house, sweep.artifact)
    return [
        Job(
            spec=spec,
            template=by_id[spec.template],
            environment=sweep.environment,
            artifact=sweep.artifact,
            pieces=pieces,
            candidate=None if spec.candidate is None else piece_of(known(views.get(REWRITES, spec.candidate))),
            arm=None,
            learns=True,
        )
        for spec in specs
    ]


def play_jobs(
    house: House, client: EnvClient, title: str, jobs: Sequence[Job], course: Course, reporter: Reporter
) -> None:
    """Play every job, at the prices in force now. An error is raised when all the others have ended."""
    book = prices(house.views())
    calls = [Call(job, job.spec.state_key, session=job.spec.state_key is not None) for job in jobs]
    dispatch = Dispatch(
        calls,
        lambda job, _: rollout(job, house.store, house.blobs, client, book, course.rule),
        max_parallel=course.max_parallel,
    )
    errors = []
    with reporter.phase(title, len(jobs)) as advance:
        for outcome in dispatch.outcomes():
            if outcome.error is not None:
                errors.append(outcome.error)
            advance()
    if errors:
        raise errors[0]
