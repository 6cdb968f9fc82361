"""Delegation loops, and the skills and tools that their workers wrote."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from ..positions import moment_of
from ..queries import loops as queries
from .as_of import LIMIT, AsOf, HouseOf, Id, Limit, Reading, reply, sorted_after
from .problems import problem_of
from .rows import ERASED
from .schemas import answer_of

router = APIRouter(tags=["loops"])

AfterLoop = Annotated[str | None, sorted_after(200, "loops whose name sorts after this")]
AfterSkill = Annotated[str | None, sorted_after(200, "skills whose name sorts after this")]
AfterTool = Annotated[str | None, sorted_after(200, "tools whose name sorts after this")]


@router.get("/loops", summary="List delegation loops", responses={200: answer_of(queries.LoopList)})
def list_loops(views: Reading, limit: Limit = LIMIT, after: AfterLoop = None) -> Response:
    """`{"loops": [...], "next": name}` in order of name, without those of runs that may not be told of."""
    return reply(queries.list_loops(views, after=after, limit=limit))


@router.get(
    "/loops/{loop:path}",
    summary="One delegation loop",
    responses={200: answer_of(queries.LoopAnswer), 404: problem_of("There is no such loop."), 410: ERASED},
)
def one_loop(house: HouseOf, views: Reading, loop: Id) -> Response:
    """Its decisions, its budget, its tools, and its result once it has ended; 409 while it is sealed."""
    return reply(queries.show_loop(views, house.blobs, loop))


@router.get("/skills", summary="List skills", responses={200: answer_of(queries.SkillList)})
def list_skills(
    house: HouseOf, views: Reading, as_of: AsOf = None, limit: Limit = LIMIT, after: AfterSkill = None
) -> Response:
    """`{"skills": [...], "next": name}`: the latest version of each, and how it stands as a piece of memory."""
    now = moment_of(house.store, as_of, views.upto)
    return reply(queries.list_skills(views, now, after=after, limit=limit))


@router.get(
    "/skills/{skill:path}",
    summary="One skill",
    responses={200: answer_of(queries.SkillAnswer), 404: problem_of("There is no such skill."), 410: ERASED},
)
def one_skill(house: HouseOf, views: Reading, skill: Id, as_of: AsOf = None) -> Response:
    """`{"skill", "text", "pieces"}`: its Markdown, and the evidence for it as a piece of memory; 409 while sealed."""
    now = moment_of(house.store, as_of, views.upto)
    return reply(queries.show_skill(house.store, house.blobs, views, skill, now))


@router.get("/tools", summary="List tools", responses={200: answer_of(queries.ToolList)})
def list_tools(views: Reading, limit: Limit = LIMIT, after: AfterTool = None) -> Response:
    """`{"tools": [...], "next": name}`: the latest version of each."""
    return reply(queries.list_tools(views, after=after, limit=limit))


@router.get(
    "/tools/{tool:path}",
    summary="One tool",
    responses={200: answer_of(queries.ToolAnswer), 404: problem_of("There is no such tool."), 410: ERASED},
)
def one_tool(house: HouseOf, views: Reading, tool: Id) -> Response:
    """`{"tool", "definition"}`: its schema and its code; 409 while it is sealed."""
    return reply(queries.show_tool(views, house.blobs, tool))
