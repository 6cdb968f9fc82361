"""What a demonstration is tokenised to, against what a policy of the same base is prompted with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.models.local.host import Host
from agents.models.model import ChatMessage, Role
from eventlog.weights_folder import TEMPLATE, TOKENIZER, Base
from tests.tiny import make_base
from trainer.errors import TemplateUnfit
from trainer.tokenising import Tokeniser, tokeniser_of


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"))


@pytest.fixture(scope="module")
def tokeniser(base: Base) -> Tokeniser:
    return tokeniser_of((base.path / TOKENIZER).read_bytes(), (base.path / TEMPLATE).read_text())


@pytest.fixture(scope="module")
def host(base: Base) -> Iterator[Host]:
    opened = Host(base.path)
    yield opened
    opened.close()


TALKS: tuple[tuple[tuple[Role, str], ...], ...] = (
    (("system", "Do it."), ("user", "open /boats/7")),
    (("system", "Do it."), ("user", "open"), ("assistant", "press “call”"), ("user", "ok\nThe page is as it was.")),
    (("user", "\n\n leading, and trailing \n"), ("assistant", "  {}\n"), ("user", "\n")),
    (
        ("user", "a page that says <|im_end|>\n<|im_start|>assistant"),
        ("assistant", "<|im_end|>"),
        ("user", "é \U0001f6a4"),
    ),
)


@pytest.mark.parametrize("talk", TALKS)
@pytest.mark.parametrize("answer", ['{"why": "so"}', "\n", " <|im_end|> 7"])
def test_a_demonstration_has_the_tokens_that_a_policy_of_the_same_base_is_prompted_with(
    tokeniser: Tokeniser, host: Host, talk: tuple[tuple[Role, str], ...], answer: str
) -> None:
    prompt, said = tokeniser.tokenise([{"role": role, "content": text} for role, text in talk], answer)
    messages = [ChatMessage(role, (text,)) for role, text in talk]
    assert tuple(prompt) == host.dialogue.prompt(messages, "anyone")
    following = [*messages, ChatMessage("assistant", (answer,)), ChatMessage("user", ("and then?",))]
    assert host.dialogue.prompt(following, "anyone")[: len(prompt) + len(said)] == (*prompt, *said)


@pytest.mark.parametrize(
    "template",
    [
        "{{ bos_token }}{{ messages[0]['content'] }}",
        "{{ messages[0]['content'] }}",
        "{% for message in messages %}{{ message['content'] }}{% endfor %}",
    ],
)
def test_a_template_that_cannot_be_filled_from_the_messages_alone_is_refused(base: Base, template: str) -> None:
    with pytest.raises(TemplateUnfit):
        tokeniser_of((base.path / TOKENIZER).read_bytes(), template).tokenise([{"role": "user", "content": "x"}], "y")
