"""Memory through the proxy: what the champion, or an artifact called by name, has learned for a site, where asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from agents.learning.memory import build_memory_artifact, forget_everything
from api.house import House
from api.queries.champion import present_champion
from api.serving.call_appends import RunOpening
from api.serving.calls import read_object
from api.serving.dialects import CHAT
from api.serving.errors import BadCall
from api.serving.told_memory import MemoryTeller
from api.sweeps.plan import first_facts
from eventlog.blobs.conversations import get_messages
from eventlog.events import ChampionPointed, ModelCalled, RunStarted
from eventlog.store import Append
from tests.admitted import admitted
from tests.model_server import ModelServer, model_server

from .test_capture_proxy import Proxy, proxied
from .test_matched_by_meaning import HINT, promote, record

LINE = "motor facts"
ASK = "Read the motor facts of the boat"


@pytest.fixture
def house(empty_house: House) -> House:
    """A log whose champion's memory holds a hint for the marketplace."""
    admitted(empty_house.store, "marketplace")
    first_facts(empty_house)
    record(empty_house)
    promote(empty_house)
    artifact, memory = build_memory_artifact(empty_house.views(), "base")
    empty_house.blobs.put([memory])
    pointed = ChampionPointed(artifact=artifact, by="operator", reason="it has learned", evaluation=None)
    empty_house.store.append([Append("champion", (pointed,), "test")])
    return empty_house


@pytest.fixture
def proxy(house: House) -> Iterator[tuple[Proxy, ModelServer]]:
    with model_server(lambda _: "done") as upstream, proxied(house, upstream) as running:
        yield running, upstream


def ask(proxy: Proxy, run: str, **headers: str) -> Any:
    address, token, _ = proxy
    with openai.OpenAI(base_url=f"{address}/{run}/v1", api_key=token, max_retries=0, default_headers=headers) as client:
        return client.chat.completions.create(model="policy", messages=[{"role": "user", "content": ASK}])


def messages_of(house: House, run: str) -> tuple[RunStarted, list[Any]]:
    events = [each.event for each in house.store.read(stream=f"run/{run}")]
    started = next(each for each in events if isinstance(each, RunStarted))
    call = next(each for each in events if isinstance(each, ModelCalled))
    return started, list(get_messages(house.blobs, call.messages))


def test_a_caller_who_asks_is_told_the_champions_memory_of_a_site_and_the_run_says_so(
    proxy: tuple[Proxy, ModelServer],
) -> None:
    running, upstream = proxy
    house = running[2]
    ask(running, "ext-told", **{"X-Flywheel-Memory": "marketplace"})
    ask(running, "ext-told", **{"X-Flywheel-Memory": "marketplace"})
    ask(running, "ext-untold")
    told, again, untold = (each.text for each in upstream.asked)
    assert told == again
    assert LINE in told.removesuffix(ASK)
    assert "never an instruction" in told
    assert untold == ASK
    started, messages = messages_of(house, "ext-told")
    assert LINE in messages[0]["content"]  # what is recorded is what the model read
    assert [each.piece for each in started.applied] == [HINT]
    assert started.artifact.memory == present_champion(house.views()).pointed_artifact().memory
    assert messages_of(house, "ext-untold")[0].applied == ()


def test_a_run_is_told_the_same_by_another_process_although_the_champion_moved(
    proxy: tuple[Proxy, ModelServer],
) -> None:
    running, upstream = proxy
    house = running[2]
    asked = {"X-Flywheel-Memory": "marketplace"}
    ask(running, "ext-told", **asked)
    artifact, memory = forget_everything("base")
    house.blobs.put([memory])
    pointed = ChampionPointed(artifact=artifact, by="operator", reason="it forgets", evaluation=None)
    house.store.append([Append("champion", (pointed,), "test")])
    with proxied(house, upstream, token=running[1]) as second:
        ask(second, "ext-told", **asked)
        ask(second, "ext-new", **asked)
    first, again, new = (each.text for each in upstream.asked)
    assert first == again != new == ASK


def test_a_run_that_began_without_memory_is_told_none_later(proxy: tuple[Proxy, ModelServer]) -> None:
    running, upstream = proxy
    ask(running, "ext-late")
    ask(running, "ext-late", **{"X-Flywheel-Memory": "marketplace"})
    assert [each.text for each in upstream.asked] == [ASK, ASK]
    assert messages_of(running[2], "ext-late")[0].applied == ()


def test_an_unknown_site_is_refused_in_the_callers_dialect_and_begins_no_run(proxy: tuple[Proxy, ModelServer]) -> None:
    running, upstream = proxy
    with pytest.raises(openai.BadRequestError, match="a site that the log knows"):
        ask(running, "ext-lost", **{"X-Flywheel-Memory": "nowhere"})
    assert upstream.asked == []
    assert list(running[2].store.read(stream="run/ext-lost")) == []


def test_an_artifact_that_is_called_by_name_tells_its_own_memory(house: House) -> None:
    def call_of(model: str) -> Any:
        body = b'{"model": "%s", "messages": [{"role": "user", "content": "%s"}]}' % (model.encode(), ASK.encode())
        return CHAT.read_call(read_object(body))

    def opening(run: str) -> RunOpening:
        return RunOpening(run=run, token="t", group=run, task="outside")

    teller, present = MemoryTeller(house), str(present_champion(house.views()).pointed_artifact())
    assert LINE in teller.tell_run(opening("ext-1"), call_of("champion"), "marketplace").paragraph
    assert LINE in teller.tell_run(opening("ext-2"), call_of(present), "marketplace").paragraph
    forgot = teller.tell_run(opening("ext-3"), call_of("base@0"), "marketplace")
    assert (forgot.paragraph, forgot.applied, str(forgot.artifact)) == ("", (), "base@0")
    assert teller.tell_run(opening("ext-3"), call_of("champion"), "marketplace") == forgot  # one memory a run
    with pytest.raises(BadCall, match="nowhere"):
        teller.tell_run(opening("ext-4"), call_of("champion"), "nowhere")
