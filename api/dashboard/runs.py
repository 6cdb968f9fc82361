"""Runs: the newest, those that a filter leaves, one as a timeline, two side by side, and a replay."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from eventlog.errors import BlobErased, BlobMissing, FlywheelError
from projections.datasets.conversations import read_message
from projections.datasets.plan_rows import ConversationMessage
from projections.engine.views import PostgresViews

from ..errors import Unknown
from ..house import House
from ..queries.run_starts import runs_by_start
from ..queries.runs import GradedRun, RunFilter, find_runs, pick_runs, refuse_hidden_run, unknown_run
from ..queries.timelines import TurnPair, align_turns, read_timeline, recent_runs
from ..routes.as_of import HouseOf, Id, Reading, position_of
from .pages import HEADERS, render_page

router = APIRouter()

PAGE = 50
MOST_READ = 2_000
"""Runs that are looked at for a page of those that a filter leaves."""

MOST_MESSAGES, MOST_TEXT = 60, 40_000
IMAGES = frozenset({"image/png", "image/jpeg", "image/webp"})

Name = Annotated[str, Query(max_length=200)]
Status = Literal["", "started", "completed", "halted", "out_of_budget", "missing", "ended"]
Moment = Annotated[str, Query(max_length=40)]
Address = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]


def texts_asked(
    environment: Name = "",
    template: Name = "",
    sweep: Name = "",
    evaluation: Name = "",
    text: Name = "",
    since: Moment = "",
    until: Moment = "",
) -> dict[str, str]:
    """What the list of runs is filtered by; an empty one asks for all. `since` and `until` are positions or times."""
    names = {"environment": environment, "template": template, "sweep": sweep, "evaluation": evaluation}
    return {**names, "text": text, "since": since.strip(), "until": until.strip()}


@router.get("/runs")
def runs(
    request: Request,
    house: HouseOf,
    views: Reading,
    asked: Annotated[dict[str, str], Depends(texts_asked)],
    status: Status = "",
    result: Literal["", "passed", "failed"] = "",
    after: Name = "",
) -> Response:
    """The newest runs, or a page of those that a filter leaves, in order of name, or of their beginning in a span."""
    names = {name: value or None for name, value in asked.items() if name not in {"since", "until"}}
    wanted = RunFilter(**names, status=status or None, is_failed=result == "failed", is_passed=result == "passed")
    has_span = bool(asked["since"] or asked["until"])
    is_newest, following = wanted.is_any and not after and not has_span, None
    if is_newest:
        found = recent_runs(house.store, views, PAGE)
    elif has_span:
        found, following = _runs_between(house, views, wanted, asked, after)
    else:
        found, following = find_runs(views, wanted, after=after or None, limit=PAGE, most_read=MOST_READ)
    if result:  # a filter by results must not tell those of sealed runs
        found = tuple(each for each in found if not each.run.is_sealed)
    return render_page(
        request,
        "runs.html",
        area="runs",
        position=views.upto,
        found=found,
        asked=asked,
        status=status,
        result=result,
        statuses=[each for each in get_args(Status) if each],
        is_newest=is_newest,
        following=following,
    )


def _runs_between(
    house: House, views: PostgresViews, wanted: RunFilter, asked: dict[str, str], after: str
) -> tuple[tuple[GradedRun, ...], str | None]:
    """A page of the runs that began in a span; `after` is a position. Raises BadPosition."""
    start, end = position_of(house.store, asked["since"] or None) or 0, position_of(house.store, asked["until"] or None)
    start = max(start, int(after)) if after.isascii() and after.isdecimal() and len(after) < 17 else start  # noqa: PLR2004
    last = views.upto if end is None else end
    return runs_by_start(house.store, views, wanted, start, last, limit=PAGE)


@router.get("/runs/{run_id:path}/replay")
def replay(request: Request, house: HouseOf, views: Reading, run_id: Id) -> Response:
    """Result of a run's replay, as a part of its page. Writes nothing."""
    from ..history.replay import replay_run  # noqa: PLC0415 it brings the sites

    try:
        refuse_hidden_run(views, run_id)
        found, refused = replay_run(house.store, house.blobs, house.views, run_id, house.embeddings_of), None
    except FlywheelError as error:
        found, refused = None, str(error)
    return render_page(request, "parts/replay.html", found=found, refused=refused)


@router.get("/runs/{run_id:path}")
def one_run(request: Request, house: HouseOf, views: Reading, run_id: Id) -> Response:
    """One run as a timeline."""
    found = pick_runs(views, [run_id]).get(run_id)
    if found is None:
        raise unknown_run(run_id)
    timeline = read_timeline(house.store, views, run_id)
    return render_page(
        request, "run.html", area="runs", position=views.upto, run=found.run, reward=found.reward, timeline=timeline
    )


@router.get("/compare")
def compare(request: Request, house: HouseOf, views: Reading, left: Name = "", right: Name = "") -> Response:
    """Two runs side by side, step by step."""
    found = pick_runs(views, [name for name in (left, right) if name])
    unknown = [name for name in (left, right) if name and name not in found]
    if unknown:
        raise unknown_run(unknown[0])
    pairs: tuple[TurnPair, ...] = ()
    if left and right:
        pairs = align_turns(read_timeline(house.store, views, left), read_timeline(house.store, views, right))
    first = next((place for place, pair in enumerate(pairs) if pair.differs), None)
    sides = tuple(found.get(name) for name in (left, right))
    return render_page(
        request,
        "compare.html",
        area="runs",
        position=views.upto,
        left=left,
        right=right,
        sides=sides,
        pairs=pairs,
        first=first,
    )


@router.get("/messages/{address}")
def messages(request: Request, house: HouseOf, address: Address) -> Response:
    """The messages of a call, as a part of a run's page."""
    try:
        found, refused = read_conversation(house, address), None
    except FlywheelError as error:
        found, refused = (), str(error)
    return render_page(request, "parts/messages.html", found=found, refused=refused)


def read_conversation(house: House, address: str) -> tuple[ConversationMessage, ...]:
    """The messages of a call, oldest first: at most the last MOST_MESSAGES. Raises BlobMissing, BlobErased."""
    found: list[ConversationMessage] = []
    following: str | None = address
    while following is not None and len(found) < MOST_MESSAGES:
        turn = read_message(following, house.blobs.get(following))
        found.append(turn.message)
        following = turn.parent
    return tuple(reversed(found))


@router.get("/texts/{address}")
def text(request: Request, house: HouseOf, address: Address) -> Response:
    """The text of a blob, as a part of a run's page; it is shown as it is, and never as a page."""
    try:
        blob = house.blobs.get(address)
        body, refused = blob.body[:MOST_TEXT].decode("utf-8", errors="replace"), None
        rest = max(0, len(blob.body) - MOST_TEXT)
    except (BlobMissing, BlobErased) as error:
        body, rest, refused = "", 0, str(error)
    return render_page(request, "parts/text.html", body=body, rest=rest, refused=refused)


@router.get("/pictures/{address}")
def picture(house: HouseOf, address: Address) -> Response:
    """A screenshot. Raises Unknown for anything that is no picture."""
    blob = house.blobs.get(address)
    if blob.media_type not in IMAGES:
        raise Unknown(what="picture", actual=address, way_out="Read other bytes with GET /v1/blobs.")
    return Response(blob.body, media_type=blob.media_type, headers=HEADERS)
