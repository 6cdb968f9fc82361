"""Webhooks against a real receiver: signed, in order, again until taken, never twice with another id, never inwards."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep

import pytest

from api.cli.main import run_command
from api.cli.serve import work_beside
from api.house import House
from api.locks import only_deliverer
from api.webhooks import deliver, register
from api.webhooks.deliver import Cursors, attempt_delivery, deliver_round, pause_after, pending_deliveries
from api.webhooks.errors import TooManyWebhooks
from eventlog.events import AnyEvent, WebhookAttempted
from eventlog.store import Append
from projections.engine.builds import bookmarks
from projections.outside.webhooks import WEBHOOKS, WebhookState
from tests.conftest import Database
from tests.golden.test_golden_samples import sample

KEY = b"a secret of at least 24 bytes"
NOW = datetime(2040, 1, 1, tzinfo=UTC)


@dataclass
class Receiver:
    """A server that keeps what it was sent, and answers as it is told to."""

    url: str = ""
    answer: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for _, headers, _ in self.got]


def server_of(kept: Receiver, port: int = 0) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            kept.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            sleep(kept.delay)
            self.send_response(kept.answer)
            for name, value in kept.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the name of the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    return server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    kept = Receiver()
    server = server_of(kept)
    kept.url = f"http://127.0.0.1:{server.server_port}/hook"
    yield kept
    server.shutdown()
    server.server_close()


@pytest.fixture
def telling(empty_house: House, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> House:
    """A house whose webhook `ops` leads to the receiver, on a network that a setting allows."""
    monkeypatch.setenv("FLYWHEEL_WEBHOOK_OPS", KEY.decode())
    settings = empty_house.settings.model_copy(update={"webhook_networks": "127.0.0.1"})
    house = replace(empty_house, settings=settings)
    add(house, receiver.url)
    return house


def add(house: House, url: str, name: str = "ops") -> None:
    register.add_webhook(house.store, house.views(), name, url, "FLYWHEEL_WEBHOOK_OPS", ("verdict", "champion"), "test")


def append(house: House, *events: AnyEvent) -> None:
    house.store.append([Append("champion", events, "test")])


def state_of(house: House, name: str = "ops") -> WebhookState:
    found = house.views().get(WEBHOOKS, name)
    assert found is not None
    return found


def attempts(house: House) -> list[tuple[int, str, str]]:
    events = [each.event for each in house.store.read(types=["WebhookAttempted"])]
    return [(each.attempt, each.outcome, each.detail) for each in events if isinstance(each, WebhookAttempted)]


def test_a_verdict_and_a_move_are_told_in_order_signed_and_without_sealed_figures(
    telling: House, receiver: Receiver
) -> None:
    append(telling, sample("TokenRevoked"), sample("VerdictReached"), sample("ChampionPointed"))
    cursors = Cursors()
    assert [deliver_round(telling, cursors, NOW) for _ in range(3)] == [1, 1, 0]
    told = [json.loads(body) for _, _, body in receiver.got]
    assert [each["type"] for each in told] == ["flywheel.verdict.reached", "flywheel.champion.pointed"]
    assert told[0]["data"]["decision"] == "promote"
    names = {"evaluation", "decision", "reasons", "champion", "challenger"}
    assert (set(told[0]["data"]), told[0]["data"]["reasons"]) == (names, ["every check is met"])
    assert not {"mean_delta", "p_value", "interval", "0.8", "800000"} & set(json.dumps(told[0]["data"]).split('"'))
    assert receiver.ids == [each["id"] for each in told] == ["default-ops-3", "default-ops-4"]
    for path, headers, body in receiver.got:
        signed = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
        expected = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
        assert (path, headers["webhook-signature"]) == ("/hook", f"v1,{expected}")
        assert abs(int(headers["webhook-timestamp"]) - datetime.now(UTC).timestamp()) < 60
    assert KEY.decode() not in str([each.event for each in telling.store.read()])


def test_what_came_before_a_webhook_or_after_its_end_is_not_told(empty_house: House, telling: House) -> None:
    before = telling.views().upto
    append(telling, sample("ChampionPointed"))
    add(telling, "http://127.0.0.1:9/late", "late")
    assert state_of(telling, "late").told > before
    register.remove_webhook(telling.store, telling.views(), "ops", "done", "test")
    assert deliver_round(telling, Cursors(), NOW) == 0


def test_while_nothing_concerns_a_webhook_few_rounds_fold_and_what_comes_later_is_told(
    telling: House, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(telling, sample("ChampionPointed"))
    cursors = Cursors()
    assert [deliver_round(telling, cursors, NOW) for _ in range(2)] == [1, 0]
    append(telling, sample("TokenRevoked"))
    with monkeypatch.context() as patch:
        patch.setattr(type(telling), "views", lambda _: pytest.fail("the log was folded"))
        assert {deliver_round(telling, cursors, NOW) for _ in range(15)} == {0}
    assert deliver_round(telling, cursors, NOW) == 0
    assert {each.position for each in bookmarks(telling.engine)} == {telling.store.head()}
    append(telling, sample("VerdictReached"))
    assert [deliver_round(telling, cursors, NOW) for _ in range(2)] == [1, 0]
    add(telling, receiver.url, "late")
    append(telling, sample("ChampionPointed"))
    assert deliver_round(telling, cursors, NOW) == 2
    assert len(receiver.got) == 4


@pytest.mark.parametrize("answer", [500, 400, 410, 302])
def test_a_refusal_is_tried_again_after_a_pause_and_a_redirect_is_not_followed(
    telling: House, receiver: Receiver, answer: int
) -> None:
    receiver.answer, receiver.headers = answer, {"Location": receiver.url.replace("/hook", "/inside")}
    append(telling, sample("ChampionPointed"))
    cursors, start = Cursors(), datetime.now(UTC)
    assert deliver_round(telling, cursors, start) == 1
    assert deliver_round(telling, cursors, start) == 0
    receiver.answer = 200
    assert deliver_round(telling, cursors, start + timedelta(seconds=pause_after(1) + 60)) == 1
    assert attempts(telling) == [(1, "failed", f"answered {answer}"), (2, "delivered", "answered 200")]
    assert {path for path, _, _ in receiver.got} == {"/hook"}
    assert len(set(receiver.ids)) == 1


def test_a_receiver_that_is_down_gets_the_message_once_it_is_up_also_after_a_restart(
    telling: House, receiver: Receiver
) -> None:
    kept = Receiver()
    server = server_of(kept)
    port = server.server_port
    server.shutdown()
    server.server_close()
    add(telling, f"http://127.0.0.1:{port}/hook")
    append(telling, sample("ChampionPointed"), sample("ChampionPointed"))
    assert deliver_round(telling, Cursors(), NOW) == 1
    assert state_of(telling).outcome == "failed"
    back = server_of(kept, port)
    assert [deliver_round(telling, Cursors(), NOW) for _ in range(3)] == [1, 1, 0]
    assert len(set(kept.ids)) == len(kept.ids) == 2
    back.shutdown()
    back.server_close()


def test_a_receiver_that_hangs_holds_up_no_other(
    telling: House, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "_TIMEOUT_S", 0.5)
    receiver.delay = 2
    quick = Receiver()
    server = server_of(quick)
    add(telling, f"http://127.0.0.1:{server.server_port}/", "quick")
    append(telling, sample("ChampionPointed"))
    assert deliver_round(telling, Cursors(), NOW) == 2
    assert (state_of(telling).outcome, state_of(telling, "quick").outcome) == ("failed", "delivered")
    server.shutdown()
    server.server_close()


def test_the_last_attempt_drops_a_message_and_the_next_one_is_told(
    telling: House, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "MOST_ATTEMPTS", 2)
    receiver.answer = 503
    append(telling, sample("ChampionPointed"), sample("ChampionPointed"))
    cursors = Cursors()
    assert [deliver_round(telling, cursors, NOW) for _ in range(2)] == [1, 1]
    receiver.answer = 200
    assert deliver_round(telling, cursors, NOW) == 1
    assert [outcome for _, outcome, _ in attempts(telling)] == ["failed", "dropped", "delivered"]
    assert len(set(receiver.ids)) == 2


def test_a_kill_between_the_message_and_its_event_repeats_it_with_the_same_id(
    telling: House, receiver: Receiver
) -> None:
    append(telling, sample("ChampionPointed"))
    states = telling.views().find(WEBHOOKS)
    (pending,) = pending_deliveries(telling.store, states, Cursors(), telling.views().upto)
    assert attempt_delivery(telling, pending)[0] == "delivered"
    assert deliver_round(telling, Cursors(), NOW) == 1
    assert len(receiver.ids) == 2
    assert len(set(receiver.ids)) == 1


@pytest.mark.parametrize(
    ("networks", "secret", "says"),
    [
        (None, KEY.decode(), "127.0.0.1 is at 127.0.0.1, which is refused: it is not public"),
        ("10.0.0.0/8", KEY.decode(), "it is not public"),
        ("127.0.0.1", "", "it is not set"),
        ("127.0.0.1", "short", "it has 5 bytes"),
        ("127.0.0.1", "whsec_?", "is not base64"),
    ],
)
def test_nothing_is_sent_inwards_or_without_a_fit_secret(
    telling: House, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, networks: str | None, secret: str, says: str
) -> None:
    monkeypatch.setenv("FLYWHEEL_WEBHOOK_OPS", secret)
    house = replace(telling, settings=telling.settings.model_copy(update={"webhook_networks": networks}))
    append(house, sample("ChampionPointed"))
    assert deliver_round(house, Cursors(), NOW) == 1
    assert says in state_of(house).detail
    assert receiver.got == []


def test_one_process_delivers_at_a_time(telling: House) -> None:
    with only_deliverer(telling) as one, only_deliverer(telling) as other:
        assert (one is None, other is None) == (False, True)
    with only_deliverer(telling) as again:
        assert again is not None


def test_serve_delivers_while_it_runs(telling: House, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "_ROUND_S", 0.02)
    with work_beside(telling):
        append(telling, sample("ChampionPointed"))
        deadline = monotonic() + 20
        while not attempts(telling) and monotonic() < deadline:
            sleep(0.02)
    assert attempts(telling) == [(1, "delivered", "answered 204")]
    assert len(receiver.got) == 1


def test_there_are_only_so_many(telling: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "MOST", 1)
    add(telling, "https://hooks.example/other")
    with pytest.raises(TooManyWebhooks):
        add(telling, "https://hooks.example/", "another")


def test_the_commands_add_list_and_remove(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)

    def run(*words: str) -> tuple[int, str]:
        code = run_command(["webhook", *words])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    given = ("--secret", "FLYWHEEL_WEBHOOK_OPS")
    assert "no webhooks" in run("list")[1]
    for wrong in ("http://u:p@x/", "ftp://x/", "https://x/?token=1", "https:///x"):
        code, said = run("add", "ops", "--url", wrong, *given)
        assert (code != 0, "is no address for a webhook" in said) == (True, True), wrong
    assert run("add", "ops", "--url", "https://x.example/", "--secret", "HOME")[0] != 0
    assert run("add", "Ops!", "--url", "https://x.example/", *given)[0] != 0
    code, said = run("add", "ops", "--url", "https://x.example/h", *given, "--about", "champion")
    assert (code, "FLYWHEEL_WEBHOOK_OPS is not set here" in said) == (0, True)
    (row,) = json.loads(run("list", "--json")[1])
    assert (row["webhook"], row["about"], row["last"]) == ("ops", "champion", "nothing yet")
    assert run("remove", "ops", "--reason", "done")[0] == 0
    assert run("remove", "ops", "--reason", "done")[0] != 0
