"""Model calls of a run from outside, appended over REST: by whom, to which runs, and what they have to name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest
from fastapi.testclient import TestClient

from api.history.disown import refuse_forged
from api.history.erase import what_is_known_of
from api.house import House
from api.tokens import issue
from eventlog.blobs import Blob
from eventlog.blobs.conversations import put_messages
from eventlog.events import ModelCalled, TokenRole
from tests.golden.test_golden_samples import sample

from .test_rest_owners import RUN, opening

ROLES: tuple[TokenRole, ...] = get_args(TokenRole)
SAID: Any = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}, {"role": "user"}]


@pytest.fixture
def house(empty_house: House) -> House:
    """A house on an empty log."""
    return empty_house


@pytest.fixture
def headers(house: House) -> Mapping[TokenRole, dict[str, str]]:
    """The headers of a caller of each role."""
    return {role: {"Authorization": f"Bearer {issue(house.store, role, 'test', role)}"} for role in ROLES}


def called(house: House, index: int = 0, run: str = RUN, **changes: Any) -> dict[str, Any]:
    """A call of the run whose blobs are stored."""
    (completion,) = house.blobs.put([Blob("application/json", b'{"samples":[{"text":"4"}]}')])
    messages = put_messages(house.blobs, SAID[: index + 1])
    stored = {"messages": messages, "completion": completion, "images": (), "role": "policy"}
    found: dict[str, Any] = sample("ModelCalled", run=run, index=index, **(stored | changes)).model_dump(mode="json")
    return found


def stepped(run: str, observation: str) -> dict[str, Any]:
    """A step of a run, which names what it saw."""
    found: dict[str, Any] = sample("StepTaken", run=run, index=0, observation=observation).model_dump(mode="json")
    return found


def ended(run: str, end_state: str) -> dict[str, Any]:
    """The end of a run, which names how it left its instance."""
    found: dict[str, Any] = sample("RunFinished", run=run, end_state=end_state).model_dump(mode="json")
    return found


def sent(client: TestClient, headers: dict[str, str], *events: dict[str, Any], **more: object) -> tuple[int, str]:
    body = {"stream": f"run/{events[0]['run']}", "events": events, **more}
    answer = client.post("/v1/events", json=body, headers=headers)
    return answer.status_code, answer.json().get("error", {}).get("type", "")


def test_calls_are_appended_by_every_role_that_records_runs_and_by_no_other(
    client: TestClient, house: House, headers: Mapping[TokenRole, dict[str, str]]
) -> None:
    found = {
        role: sent(client, headers[role], opening(f"ext-{role}"), called(house, run=f"ext-{role}")) for role in ROLES
    }
    taken = (201, "")
    assert found == {"read": (403, "RoleTooLow"), "ingest": taken, "operate": taken, "admin": taken}
    assert sent(client, headers["ingest"], called(house, 1, "ext-admin")) == (403, "OthersRun")
    assert sent(client, headers["operate"], called(house, 1, "ext-admin")) == (201, "")
    (first, second) = (
        each.event for each in house.store.read(stream="run/ext-admin") if isinstance(each.event, ModelCalled)
    )
    assert (first.index, second.index) == (0, 1)
    refuse_forged(house.views())


def test_a_call_of_a_run_of_ours_is_refused_to_every_role(
    client: TestClient, house: House, headers: Mapping[TokenRole, dict[str, str]]
) -> None:
    head = house.store.head()
    for role in ROLES:
        kind = "RoleTooLow" if role == "read" else "ForeignRunName"
        assert sent(client, headers[role], called(house, run="s1__t__seed1__s0")) == (403, kind)
    assert house.store.head() == head


@pytest.mark.parametrize(
    ("changes", "status", "kind"),
    [
        ({"completion": "f" * 64}, 404, "BlobMissing"),
        ({"messages": "f" * 64}, 404, "BlobMissing"),
        ({"images": ["f" * 64] * 65}, 422, "Unprocessable"),
        ({"images": ("f" * 64,)}, 404, "BlobMissing"),
        ({"messages": None}, 422, "Unprocessable"),
        ({"index": 1}, 422, "Unprocessable"),
        ({"role": "verifier"}, 422, "Unprocessable"),
        ({"run": "ext-nowhere"}, 404, "Unknown"),
    ],
)
def test_a_call_that_no_dataset_could_read_is_refused(
    client: TestClient,
    house: House,
    headers: Mapping[TokenRole, dict[str, str]],
    changes: dict[str, Any],
    status: int,
    kind: str,
) -> None:
    assert sent(client, headers["ingest"], opening()) == (201, "")
    head, call = house.store.head(), called(house)
    given = {name: call["completion"] if value is None else value for name, value in changes.items()}
    assert sent(client, headers["ingest"], {**call, **given}) == (status, kind)
    assert house.store.head() == head


IDS = '"prompt_token_ids":[1],"samples":[{"token_ids":[2,%s],"logprobs":[-0.5,%s]}]'


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("no json", "is no completion"),
        ('{"samples":[]}', "is without samples"),
        ('{"samples":[{"text":"\\ud800"}]}', "is no completion"),
        ('{"prompt_token_ids":[-1],"samples":[{}]}', "prompt_token_ids is -1: expected token ids of 0 to 2147483647"),
        ("{%s}" % (IDS % (2**31, -1)), "samples.0.token_ids is 2147483648: expected token ids of 0 to 2147483647"),
        ("{%s}" % (IDS % (2**64, -1)), "samples.0.token_ids is 18446744073709551616: expected token ids"),
        ("{%s}" % (IDS % (3, "NaN")), "samples.0.logprobs is nan: expected finite natural logarithms of at most 0"),
        ("{%s}" % (IDS % (3, "-1e999")), "samples.0.logprobs is -inf"),
        ("{%s}" % (IDS % (3, 0.5)), "samples.0.logprobs is 0.5"),
        ("{%s}" % (IDS % (3, "-1,-1")), "samples.0.logprobs is 3 numbers: expected one for each of 2 token ids"),
    ],
)
def test_a_completion_that_no_dataset_could_hold_is_refused_by_what_is_wrong_in_it(
    client: TestClient, house: House, headers: Mapping[TokenRole, dict[str, str]], body: str, said: str
) -> None:
    own = headers["ingest"]
    assert sent(client, own, opening()) == (201, "")
    head, (address,) = house.store.head(), house.blobs.put([Blob("application/json", body.encode())])
    events = [called(house, completion=address)]
    answer = client.post("/v1/events", json={"stream": f"run/{RUN}", "events": events}, headers=own)
    assert (answer.status_code, house.store.head()) == (422, head)
    assert said in answer.json()["error"]["message"]
    whole = ("{%s}" % (IDS % (2**31 - 1, "0.0"))).encode()
    (address,) = house.blobs.put([Blob("application/json", whole)])
    assert sent(client, own, called(house, completion=address)) == (201, "")


def test_a_call_names_bytes_of_no_subject_but_that_of_its_run(
    client: TestClient, house: House, headers: Mapping[TokenRole, dict[str, str]]
) -> None:
    own, body = headers["ingest"], b'{"samples":[{"text":"Ann lives here"}]}'
    (of_ann,) = house.blobs.put([Blob("application/json", body)], subject="ann")
    told = put_messages(house.blobs, SAID[:1], subject="ann")
    (picture,) = house.blobs.put([Blob("image/png", b"Ann")], subject="ann")
    runs = {"ext-of-ann": "ann", "ext-of-bob": "bob", "ext-of-nobody": None}
    for run, subject in runs.items():
        assert sent(client, own, {**opening(run), "subject": subject}) == (201, "")
    for named in ({"completion": of_ann}, {"messages": told}, {"images": [picture]}):
        for run in ("ext-of-bob", "ext-of-nobody"):
            assert sent(client, own, called(house, run=run, **named)) == (422, "Unprocessable"), (run, named)
    whole = called(house, run="ext-of-ann", completion=of_ann, messages=told, images=[picture])
    assert sent(client, own, whole, called(house, 1, run="ext-of-ann")) == (201, "")
    assert what_is_known_of(house, house.views(), "ann").runs == ("ext-of-ann",)


def test_a_step_and_an_end_name_bytes_of_no_subject_but_that_of_their_run(
    client: TestClient, house: House, headers: Mapping[TokenRole, dict[str, str]]
) -> None:
    own = headers["ingest"]
    (of_ann,) = house.blobs.put([Blob("text/plain", b"Ann lives here")], subject="ann")
    for run, subject in {"ext-of-ann": "ann", "ext-of-bob": "bob"}.items():
        assert sent(client, own, {**opening(run), "subject": subject}) == (201, "")
    for named in (stepped, ended):
        assert sent(client, own, named("ext-of-bob", of_ann)) == (422, "Unprocessable")
        assert sent(client, own, named("ext-of-ann", of_ann)) == (201, "")
    begun = {**opening("ext-of-nobody"), "subject": None}
    assert sent(client, own, begun, stepped("ext-of-nobody", of_ann)) == (422, "Unprocessable")
    assert sent(client, own, stepped("ext-of-bob", "e" * 64)) == (201, "")


def test_the_blobs_of_a_call_are_no_longer_than_a_prompt_may_be(
    client: TestClient, house: House, headers: Mapping[TokenRole, dict[str, str]]
) -> None:
    most = house.settings.prompt_bytes
    long, longer = house.blobs.put([Blob("image/png", bytes(most // 2)), Blob("image/png", bytes(most // 2 + 1))])
    own = headers["ingest"]
    assert sent(client, own, opening(), called(house, images=[long, long]))[0] == 201
    assert sent(client, own, called(house, 1, images=[long, longer])) == (422, "Unprocessable")


def test_a_conversation_with_a_hole_is_refused(
    client: TestClient, house: House, headers: Mapping[TokenRole, dict[str, str]]
) -> None:
    body = b'{"message":{"role":"user"},"parent":"%s"}' % (b"e" * 64)
    (address,) = house.blobs.put([Blob("application/vnd.flywheel.message+json", body)])
    answer = sent(client, headers["ingest"], opening(), called(house, messages=address))
    assert answer == (404, "BlobMissing")


def test_a_run_that_has_ended_takes_no_call_and_a_retry_is_answered_as_before(
    client: TestClient, house: House, headers: Mapping[TokenRole, dict[str, str]]
) -> None:
    own = headers["ingest"]
    assert sent(client, own, opening(), called(house), key="first") == (201, "")
    assert sent(client, own, called(house, 1), expect=1) == (409, "AppendConflict")
    assert sent(client, own, called(house, 1), expect=2) == (201, "")
    reward = client.post(f"/v1/runs/{RUN}/reward", json={"score": 1, "passed": True}, headers=own)
    assert reward.status_code == 200
    assert sent(client, own, called(house, 2)) == (409, "RunClosed")
    assert sent(client, own, opening(), called(house), key="first") == (200, "")
    assert sent(client, own, called(house, 2), key="first") == (409, "AppendKeyReused")
