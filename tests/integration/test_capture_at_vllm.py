"""The capture proxy before a vLLM server that loads adapters: the champion and artifacts, each by its own weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest
from starlette.responses import StreamingResponse

from agents.models.errors import BadEndpoint
from api.house import House
from api.serving.adapter_upstream import refuse_bad_endpoint
from api.settings import Settings
from api.sweeps.plan import first_facts
from eventlog.events import RunStarted
from tests.learned import with_models
from tests.model_server import Asked, Reply, model_server

from .test_capture_proxy import MODEL, calls_of, client_at, part, proxied, streamed
from .test_challenger_references import record
from .test_served_champion import Weights, point_to, weights

__all__ = ["weights"]
pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore::FutureWarning")]

ASK: Any = [{"role": "user", "content": "open /boats/17"}]


@pytest.fixture
def house(empty_house: House, tmp_path: Path, weights: Weights) -> House:
    house = with_models(empty_house, tmp_path / "models")
    first_facts(house)
    record(house, weights.saved)
    record(house, weights.alien)
    return house


def name_of(asked: Asked) -> Reply:
    """An answer that is the name of the model that was asked, in one piece or streamed."""
    model = str(asked.body["model"])
    if not asked.body.get("stream"):
        return model
    found: Reply = streamed([part(model, "stop") | {"model": model}])(asked)
    assert isinstance(found, StreamingResponse)
    return found


def said(client: openai.OpenAI, model: str) -> str:
    return str(client.chat.completions.create(model=model, messages=ASK, max_tokens=8).choices[0].message.content)


def weights_of_run(house: House, run: str) -> str:
    (start,) = (each.event for each in house.store.read(stream=f"run/{run}") if isinstance(each.event, RunStarted))
    return start.artifact.weights


def test_the_champion_and_artifacts_are_called_by_name_and_loaded_at_their_first_use(
    house: House, weights: Weights
) -> None:
    digest = weights.saved.digest
    served = f"{MODEL}+{digest[:12]}"
    with model_server(name_of) as server, proxied(house, server, model_base=weights.base.digest) as proxy:
        assert said(client_at(proxy, "ext-1"), "champion") == MODEL
        assert server.loaded == {}
        point_to(house, digest)
        assert said(client_at(proxy, "ext-2"), "champion") == served
        assert said(client_at(proxy, "ext-3"), f"ck-{digest[:8]}@0") == served
        assert said(client_at(proxy, "ext-4"), "base@0") == said(client_at(proxy, "ext-5"), MODEL) == MODEL
        listed = {each.id for each in client_at(proxy, "ext-1").models.list()}
        assert listed == {MODEL, "champion", "base@0", f"ck-{digest[:8]}@0"}
    assert [weights_of_run(house, f"ext-{number}") for number in range(1, 6)] == [
        "base",
        digest,
        digest,
        "base",
        "base",
    ]
    assert [*server.loaded] == [served]
    assert [each.path.rpartition("/")[2] for each in server.asked].count("load_lora_adapter") == 1


def test_a_server_that_was_restarted_loads_its_adapters_again(house: House, weights: Weights) -> None:
    point_to(house, weights.saved.digest)
    served = f"{MODEL}+{weights.saved.digest[:12]}"
    with model_server(name_of) as server, proxied(house, server, model_base=weights.base.digest) as proxy:
        client = client_at(proxy, "ext-1")
        assert said(client, "champion") == served
        server.loaded.clear()
        assert said(client, "champion") == served
        server.loaded.clear()
        stream = client.chat.completions.create(model="champion", messages=ASK, stream=True)
        assert "".join(str(each.choices[0].delta.content) for each in stream) == served
    assert len(calls_of(house, "ext-1")) == 3


def test_what_is_not_on_the_servers_base_or_cannot_be_loaded_is_named_and_never_the_silent_base(
    house: House, weights: Weights
) -> None:
    def refuse(asked: Asked) -> Reply:
        pytest.fail(f"the server was asked for {asked.body['model']}")

    with model_server(refuse) as server, proxied(house, server, model_base=weights.base.digest) as proxy:
        client = client_at(proxy, "ext-1")
        with pytest.raises(openai.NotFoundError, match="which is of the base"):
            said(client, f"ck-{weights.alien.digest[:8]}@0")
        with pytest.raises(openai.NotFoundError, match="champion, base@N"):
            said(client, "gpt-5")
        point_to(house, weights.alien.digest)
        with pytest.raises(openai.NotFoundError, match="which is of the base"):
            said(client, "champion")
    assert calls_of(house, "ext-1") == []


def test_an_endpoint_that_cannot_be_used_is_an_error_before_a_server_listens() -> None:
    refuse_bad_endpoint(Settings())
    refuse_bad_endpoint(Settings(model="m1", model_url="http://127.0.0.1:9/v1", model_base="0" * 64))
    with pytest.raises(BadEndpoint):
        refuse_bad_endpoint(Settings(model="m1", model_url="ftp://models", model_base="0" * 64))
