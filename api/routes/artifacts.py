"""Artifacts: weights and memory under one name, such as `base@212`, and what each remembers."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..evaluations import artifacts
from .as_of import HouseOf, Id, Reading, reply
from .problems import problem_of
from .schemas import answer_of

router = APIRouter(prefix="/artifacts", tags=["artifacts"])


@router.get(
    "/{name:path}",
    summary="What an artifact remembers",
    responses={
        200: answer_of(artifacts.ArtifactAnswer),
        404: problem_of("There are no such weights."),
        410: problem_of("Its memory was erased with its subject."),
    },
)
def one_artifact(house: HouseOf, views: Reading, name: Id) -> Response:
    """`{"name", "artifact", "pieces"}`: its weights and its memory, and each piece in that memory."""
    return reply(artifacts.show_artifact(house, views, name))
