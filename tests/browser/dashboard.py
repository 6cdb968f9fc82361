"""A log that has something of everything, served for a browser: what the tests of the pages look at."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import uvicorn

from api.app import create_app
from api.house import House
from api.ports import listen
from eventlog.blobs import Blob
from eventlog.blobs.conversations import put_messages
from eventlog.events import AnyEvent, PairedRule, Rules
from eventlog.store import Append
from tests.golden.test_golden_samples import sample

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "browser-run.png"
RUN = "ext-shop__checkout__seed4__s0"
GROUP = "ext-shop__checkout__seed4"
PIECE = "rw-demo-1"
DATASET = "c26c1acd3092144eac69da41b54adeef554250ecaeda53393bcf4fda32f46dd0"
TOLD, SEALED = "eval-2", "eval-3"
"""An evaluation whose sealed figures were paid for, and a later one that plays on a benchmark that can judge."""

RULES = Rules.default().model_copy(update={"min_pairs": 10}).model_dump(mode="json")
"""The rules of the evaluations, for a benchmark of ten sealed instances."""

TRAINING, RUNNING = "grpo-5b0f4f6b9d2a7c11", "sft-0c1d2e3f40516273"
_HINT = (
    b'{"change":{"kind":"follow_link","label":"Papers","page":"/boats/*"},"text":"The engine is on the papers page."}'
)


def _append(house: House, stream: str, *events: AnyEvent, actor: str = "controller") -> None:
    house.store.append([Append(stream, events, actor)])


def plant(house: House) -> None:
    """Append what the golden log lacks: pictures, model calls, paired trials, a hint, trainings, looks, a course."""
    _plant_runs(house)
    _plant_pieces(house)
    _plant_trainings(house)
    _plant_evaluations(house)
    for sweep in ("marketplace-1", "marketplace-2"):
        _append(house, f"sweep/{sweep}", sample("SweepEnded", sweep=sweep))
    _append(house, "course/fast/marketplace", sample("CourseOpened"))
    house.views()


def _plant_runs(house: House) -> None:
    (shot, page, plan, state) = house.blobs.put(
        [
            Blob("image/png", PICTURE.read_bytes()),
            Blob("text/plain", b"Checkout\nYour cart holds 2 boats.\n[Pay] [Back]"),
            Blob("application/json", b'[{"type":"navigate","intent":"open the cart","url":"/cart"}]'),
            Blob("application/json", b"[]"),
        ]
    )
    asked = [{"role": "system", "content": "You operate a shop."}, {"role": "user", "content": "Pay for the cart."}]
    messages = put_messages(house.blobs, asked)
    (answer,) = house.blobs.put([Blob("application/json", b'{"text":"click Pay"}')])
    for index, passed in enumerate((True, False, True, True)):
        run = f"{GROUP}__s{index}"
        started = sample("RunStarted", run=run, arm=None, applied=[], plan=plan, executor="browser").model_dump(
            mode="json"
        )
        started["spec"] |= {"spec_id": run, "sweep": "ext-shop", "template": "checkout", "env_seed": 4,
                            "group_id": GROUP, "sibling_index": index}  # fmt: skip
        started["task_spec"] |= {"environment": "shop", "instruction": "Buy what is in the cart, and pay by invoice."}
        of_start = {name: value for name, value in started.items() if name not in {"type", "schema_version"}}
        step = {"run": run, "observation": page, "http_status": 200}
        call = {"messages": messages, "completion": answer, "images": [], "run": run}
        _append(
            house,
            f"run/{run}",
            sample("RunStarted", **of_start),
            sample("InstanceReset", run=run, group=GROUP, seed=4),
            sample("ModelCalled", step=0, **call),
            sample("StepTaken", index=0, action="navigate", intent="open the cart", screenshot=shot, **step),
            sample("ModelCalled", index=1, **call | {"step": 1}),
            sample("StepTaken", index=1, action="click", intent="pay" if passed else "go back",
                   outcome="ok" if passed else "no_such_link", **step),
            sample("RunFinished", run=run, end_state=state),
            sample("RewardGraded", run=run, group=GROUP, passed=passed, score=1_000_000 if passed else 0,
                   value=999_000 if passed else -1_000, reasons=[] if passed else ["the order is missing"]),
            actor="shop",
        )  # fmt: skip


def _plant_pieces(house: House) -> None:
    (content,) = house.blobs.put([Blob("application/json", _HINT)])
    _append(house, "hint/hint-3f9a1c22b7d0", sample("HintRecorded", content=content, run=None))
    rule = PairedRule().model_dump(mode="json")
    _append(house, f"rewrite/{PIECE}", sample("RewriteProposed", rewrite=PIECE, rule=rule, run=f"{GROUP}__s1"))
    for number in range(12):
        kind = "RewriteLost" if number in {1, 6} else "RewriteWon"
        controls = [f"trial-{number}__c{control}" for control in range(3)]
        trial = {"rewrite": PIECE, "run": f"trial-{number}__t", "control_runs": controls}
        _append(house, f"rewrite/{PIECE}", sample(kind, control_successes=number % 3, **trial))


def _plant_trainings(house: House) -> None:
    for name, last in ((TRAINING, 80), (RUNNING, 34)):
        started = sample("TrainingStarted", training=name)
        steps = [
            sample("TrainingProgressed", training=name, step=step, of=80, metrics={
                "loss": f"{2 / (1 + step / 9):.4f}", "kl": f"{step / 4000:.5f}", "clip_fraction": "0.01",
                "ratio": "1.0001", "reward": f"{1 - 1 / (1 + step / 20):.4f}"})
            for step in range(1, last + 1)
        ]  # fmt: skip
        _append(house, f"training/{name}", started, *steps)
    _append(house, "checkpoint/3f9a", sample("CheckpointSaved", training=TRAINING))


def _plant_evaluations(house: House) -> None:
    rules = RULES
    looks: list[dict[str, Any]] = [
        {"number": number, "of": 3, "units": units, "p_value": p, "boundary": boundary, "outcome": outcome}
        for number, units, p, boundary, outcome in (
            (1, 4, 62_500_000_000, 384_900_000, "continue"),
            (2, 7, 7_812_500_000, 959_000_000, "continue"),
            (3, 10, 976_562_500, 1_815_000_000, "reject"),
        )
    ]
    family = {"template": "marketplace.phone_reveal", "instances": 5, "champion_runs": 60, "challenger_runs": 60,
              "champion_score": 31_000_000, "challenger_score": 29_000_000, "p_value": 420_000_000_000,
              "is_worse": False}  # fmt: skip
    verdict = sample("VerdictReached").model_dump(mode="json")["verdict"]
    verdict |= {"rules": rules, "looks": looks, "families": [family], "p_value": 976_562_500, "alpha": 5_000,
                "draws": None, "units": 10, "reasons": ["every check is met"]}  # fmt: skip
    _plant_looks(house, TOLD, 2, looks)
    _append(house, f"evaluation/{TOLD}", sample("VerdictReached", evaluation=TOLD, verdict=verdict))
    _append(house, "champion", sample("ChampionPointed", evaluation=TOLD, reason="every check is met"))
    _append(house, "benchmark/marketplace-1", sample("SealedInspected", evaluation=TOLD, alpha=5_000))
    champion = sample("ChampionPointed").model_dump(mode="json")["artifact"]
    later = champion | {"memory": champion["memory"] | {"upto": 700, "digest": "7" * 64}}
    _plant_looks(house, SEALED, 3, looks[:2], champion=champion, challenger=later)


def _plant_looks(house: House, name: str, number: int, looks: list[dict[str, Any]], **artifacts: Any) -> None:
    rules = RULES
    opened = sample("EvaluationOpened", evaluation=name, challenge=number, alpha=5_000, rules=rules, **artifacts)
    _append(house, f"evaluation/{name}", opened, *(
        sample("EvaluationLooked", evaluation=name, look=look, runs=2 * look["units"], most_runs=20)
        for look in looks
    ))  # fmt: skip


@contextmanager
def serve_pages(house: House) -> Iterator[str]:
    """The address of a server of this house, in this process, until the block ends."""
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(create_app(house), log_level="error", access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = monotonic() + 20
    while not server.started and monotonic() < deadline:
        sleep(0.02)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()
