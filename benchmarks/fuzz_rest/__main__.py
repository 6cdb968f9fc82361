"""`make fuzz-rest`: every endpoint for ten minutes; no answer is a 5xx, or has a status that is not described."""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated, Any, get_args

import httpx2
import schemathesis
import typer
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.app import create_app
from api.house import House, open_house
from api.settings import Settings
from api.tokens import issue
from benchmarks.log.server import Server, own_server
from benchmarks.report import at_most, report
from eventlog.events import TokenRole
from eventlog.transfer import import_log
from tests.served import served_app

from .sent_traces import fuzzed_traces

LOG = Path(__file__).parents[2] / "tests" / "golden" / "log.ndjson.gz"
PROJECT = "fuzz"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
TRACES, BLOBS = "/v1/traces", "/v1/blobs"
_EXAMPLES = 6
"""Requests of one kind in a round, few so that a short time reaches every endpoint."""
_APART = 1_000_003
"""How far the seeds of two works of one kind are apart, so that they draw something else."""
_ROLES: tuple[TokenRole, ...] = get_args(TokenRole)
_SHOWN = 2_000


@dataclass
class Findings:
    """What was answered: statuses, the answers that are not as described, and one example of each."""

    statuses: Counter[int] = field(default_factory=Counter)
    endpoints: set[str] = field(default_factory=set)
    wrong: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def count(self, endpoint: str, status: int) -> None:
        """Count an answer."""
        self.statuses[status] += 1
        self.endpoints.add(endpoint)

    def blame(self, what: str, example: str) -> None:
        """Count an answer that is not as described, and keep the first of its kind."""
        self.wrong[what] += 1
        self.examples.setdefault(what, example[:_SHOWN])


def main(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long, in minutes.")] = 10,
    first_seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the first round.")] = 1,
) -> None:
    """Ask every endpoint in rounds, by callers of every role; exit with 1 if an answer is not as described."""
    warnings.simplefilter("ignore")
    began = time.monotonic()
    with own_server() as server, tempfile.TemporaryDirectory(prefix="flywheel-fuzz-") as folder:
        house = _house(server, Path(folder))
        tokens = {role: issue(house.store, f"fuzz-{role}", "fuzz", role) for role in _ROLES}
        found = Findings()
        rounds = 0
        with (
            served_app(house, stream_seconds=0) as url,
            httpx2.Client(base_url=url, timeout=120, trust_env=False) as client,
        ):
            works = _works(url, client, tokens, found)
            began = time.monotonic()
            for number in itertools.count(first_seed):
                rounds += 1
                for work in works:
                    work(number)
                    if time.monotonic() - began >= minutes * 60:
                        break
                else:
                    continue
                break
        house.close()
    figures = {
        "minutes": (time.monotonic() - began) / 60,
        "endpoints": float(len(found.endpoints)),
        "rounds begun": float(rounds),
        "requests": float(found.statuses.total()),
        "answers 5xx": float(sum(amount for status, amount in found.statuses.items() if status >= 500)),  # noqa: PLR2004
        "answers not as described": float(found.wrong.total()),
    }
    figures |= {f"answers {status}": float(amount) for status, amount in sorted(found.statuses.items())}
    for what, amount in found.wrong.most_common():
        print(f"{amount} times: {what}\n{found.examples[what]}\n")
    targets = {"answers 5xx": at_most(0), "answers not as described": at_most(0)}
    sys.exit(1 if report("fuzz-rest", figures, targets) else 0)


def _house(server: Server, folder: Path) -> House:
    server.project(PROJECT)
    owner = server.owner(PROJECT)
    import_log(owner, LOG)
    owner.dispose()
    own = SecretStr(server.owner_url)
    return open_house(
        Settings(database_url=SecretStr(server.app_url), owner_url=own, project=PROJECT, home=folder, body_seconds=5)
    )


def _works(
    url: str, client: httpx2.Client, tokens: Mapping[TokenRole, str], found: Findings
) -> list[Callable[[int], None]]:
    """A function for each endpoint and way to ask it; each takes the seed of a round."""
    document = create_app(None).openapi()  # type: ignore[arg-type]
    described = schemathesis.openapi.from_dict(document)
    works: list[Callable[[int], None]] = []
    for path, methods in document["paths"].items():
        for method in methods:
            for mode in GenerationMode:
                if path in {"/healthz", "/readyz"} and mode == GenerationMode.NEGATIVE:
                    continue  # nothing can be wrong with a question about health
                strategy = described[path][method.upper()].as_strategy(generation_mode=mode)
                works.append(_described_work(url, tokens, found, f"{method.upper()} {path}", strategy))
    responses = document["paths"][TRACES]["post"]["responses"]
    works += [_traces_work(client, tokens, found, frozenset(responses), place) for place in range(10)]
    responses = document["paths"][BLOBS]["post"]["responses"]
    works += [_blobs_work(client, tokens, found, frozenset(responses), place) for place in range(2)]
    Random(1).shuffle(works)  # noqa: S311 the order of requests
    return works


def _described_work(
    url: str, tokens: Mapping[TokenRole, str], found: Findings, endpoint: str, strategy: Any
) -> Callable[[int], None]:
    """Requests that schemathesis draws from the document."""

    def ask(case: Case[Any], role: TokenRole) -> None:
        try:
            answer = case.call(base_url=url, headers={"Authorization": f"Bearer {tokens[role]}"}, timeout=120)
        except (ValueError, UnicodeError):  # a request that the client itself cannot send
            return
        except Exception as problem:  # noqa: BLE001 the run goes on, and ends as failed
            found.blame(f"{endpoint}: no answer, {type(problem).__name__}", repr(case))
            return
        found.count(endpoint, answer.status_code)
        try:
            case.validate_response(answer, checks=CHECKS)
        except* AssertionError as problems:
            for each in _leaves(problems):
                found.blame(f"{endpoint} as {role}: {answer.status_code}, {type(each).__name__}", str(each))

    return lambda number: _draw(number, {"case": strategy, "role": st.sampled_from(_ROLES)}, ask)


def _traces_work(
    client: httpx2.Client, tokens: Mapping[TokenRole, str], found: Findings, described: frozenset[str], place: int
) -> Callable[[int], None]:
    def ask(sent: tuple[dict[str, str], bytes], role: TokenRole) -> None:
        _send(client, TRACES, sent[0] | {"Authorization": f"Bearer {tokens[role]}"}, sent[1], found, described)

    return lambda number: _draw(
        number + _APART * place, {"sent": fuzzed_traces(), "role": st.sampled_from(_ROLES[1:])}, ask
    )


def _blobs_work(
    client: httpx2.Client, tokens: Mapping[TokenRole, str], found: Findings, described: frozenset[str], place: int
) -> Callable[[int], None]:
    media = st.sampled_from(["text/plain", "image/png", "application/json", "a/b; c=d", "", "text", "x/\xe9"])

    def ask(body: bytes, kind: str, role: TokenRole) -> None:
        headers = {"Content-Type": kind.encode("latin-1"), "Authorization": f"Bearer {tokens[role]}".encode()}
        _send(client, BLOBS, headers, body, found, described)

    drawn = {"body": st.binary(max_size=300), "kind": media, "role": st.sampled_from(_ROLES)}
    return lambda number: _draw(number + _APART * place, drawn, ask)


def _send(
    client: httpx2.Client, path: str, headers: Any, body: bytes, found: Findings, described: frozenset[str]
) -> None:
    answer = client.post(path, headers=headers, content=body)
    found.count(f"POST {path}", answer.status_code)
    if str(answer.status_code) not in described or answer.is_server_error:
        found.blame(f"POST {path}: {answer.status_code}", f"{headers}\n{body!r}\n{answer.text}")


def _draw(number: int, drawn: Mapping[str, Any], ask: Callable[..., None]) -> None:
    """Ask so many times with what a seed draws."""
    kept = settings(
        database=None,
        phases=(Phase.generate,),
        max_examples=_EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    seed(number)(kept(given(**drawn)(ask)))()


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for problem in group.exceptions:
        if isinstance(problem, BaseExceptionGroup):
            yield from _leaves(problem)
        else:
            yield problem


if __name__ == "__main__":
    typer.run(main)
