"""The policy executor: a model chooses each action, from the text of the page or from a screenshot of the window.

A run is one conversation that grows message by message. So messages that calls share are stored once, and the last call
contains the whole run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Final

from eventlog.events import RunStatus, Sampling, Step

from ..envs.clients.session import Session
from ..envs.contract import Instance
from ..envs.episodes.episode import ActionSpec
from ..learning.advice import BRIEF_BUDGET, BUDGET, Audience, advice_paragraph, reading_audience
from ..learning.guidance import guidance_paragraph
from ..models.errors import NotOffered, RequestRejected
from ..models.local.network import BASE
from ..models.model import ChatMessage, CompletionRequest, Image, Model, Sample, Schema
from ..models.structured import answer_schema
from .actions import SHAPES, NotAnAction, Sight, Wording, step_of, system_prompt
from .errors import NotServed
from .executor import Assignment, Called, CostReached, ExecutedStep, Execution, Verified, Watch, no_verification
from .inspection import HttpInspector, Inspectors
from .open_actions import open_schema, open_step_of, open_system_prompt
from .site_tools import over_tools
from .surface import Acted, HttpSurface, OpenSurface, Surface

NAME: Final = "policy"
SCREENSHOT_NAME: Final = "policy-screenshot"
TOOLS_NAME: Final = "policy-tools"
TRIES: Final = 2
"""Most answers of a model for a step. An answer that is not an action is retried."""

REPEATS: Final = 3
"""A run ends when it chooses the same action on an identical page this often. The last one is not executed."""

MAX_TOKENS: Final = 512
BRIEF_VIEW: Final = 120
"""Most characters of a view, in whole lines from the first, that brief wording shows to a policy."""

_PAGE_TAG: Final = re.compile(r"</?page>")

Opening = Callable[[Instance, Mapping[str, str]], AbstractContextManager[Surface]]
"""Opens a surface on an instance. The headers are sent with every page request."""


@contextmanager
def over_http(instance: Instance, page_headers: Mapping[str, str]) -> Iterator[Surface]:
    """Open a surface over plain HTTP."""
    with Session(instance.url, headers=page_headers) as session:
        yield HttpSurface(session)


def name_over(opening: Opening) -> str:
    """Recorded name of a policy that does not look at pictures, by what its runs are opened with."""
    return TOOLS_NAME if opening is over_tools else NAME


def can_inspect(opening: Opening, inspect: Inspectors | None) -> bool:
    """True if recovery can take the steps of a failed run again: over HTTP, or with inspectors of the surface's own."""
    return inspect is not None or opening is over_http


def wording_budget(wording: Wording) -> int:
    """Most bytes of advice that a policy with this wording is told."""
    return BRIEF_BUDGET if wording == "brief" else BUDGET


def guided_prompt(system: str, guidance: str) -> str:
    """A policy's system prompt with the instruction that memory holds; the prompt alone if it holds none."""
    return f"{system}\n\n{guidance_paragraph(guidance)}" if guidance else system


def task_paragraphs(instruction: str, advice: Iterable[str]) -> str:
    """What a policy is told first: its task, and the lines of advice. What it sees then follows."""
    return f"The task:\n{instruction}\n\n{advice_paragraph(advice)}"


@dataclass(frozen=True, slots=True)
class PolicyExecutor:
    """Executor of a model. `opening` makes the surface of each run, `inspect` what looks at the page of a failed one.

    `brief` wording is for small models: the text of a page is cut to its beginning. `text_schema` constrains an answer
    that is taken whole as a text, where the model offers schemas. Raises NotOffered if the policy needs screenshots
    and the model takes no images.
    """

    model: Model
    sight: Sight = "text"
    opening: Opening = over_http
    max_tokens: int = MAX_TOKENS
    wording: Wording = "full"
    text_schema: Schema | None = None
    inspect: Inspectors | None = None

    def __post_init__(self) -> None:
        if self.sight == "screenshot" and not self.model.offers.images:
            raise NotOffered(model=self.model.name, actual="images")

    @property
    def name(self) -> str:
        """See Executor. A policy that looks at pictures, or calls tools, is another executor than one that reads."""
        return SCREENSHOT_NAME if self.sight == "screenshot" else name_over(self.opening)

    @property
    def offers_logprobs(self) -> bool:
        """See Executor."""
        return self.model.offers.logprobs and self.model.offers.token_ids

    @property
    def audience(self) -> Audience:
        """See Advised."""
        return reading_audience(wording_budget(self.wording))

    @property
    def walks_pages(self) -> bool:
        """See Advised."""
        return can_inspect(self.opening, self.inspect)

    def inspectors(self) -> Inspectors:
        """See Inspecting."""
        return self.inspect or HttpInspector

    def policy_for(self, weights: str) -> PolicyExecutor:
        """The policy itself, for `base` alone: nobody knows the weights of its model. Raises NotServed.

        So its runs cannot be recorded as those of a checkpoint.
        """
        if weights != BASE:
            raise NotServed(actual=weights, expected=BASE)
        return self

    def execute(self, assignment: Assignment, instance: Instance, watch: Watch = no_verification) -> Execution:
        """See Executor. The model ends the run with `finish`. It is told of failed steps, which do not end the run."""
        with self.opening(instance, assignment.page_headers) as surface:
            actions = surface.actions if isinstance(surface, OpenSurface) else ()
            return _play(_Talk(self, assignment, actions), surface, assignment.max_steps, watch)

    def sampling_for(self, assignment: Assignment) -> Sampling:
        """Sampling parameters of an assignment, as far as the model offers them."""
        offers = self.model.offers
        return Sampling(
            temperature_micro=assignment.temperature_micro,
            max_tokens=self.max_tokens,
            seed=assignment.seed if offers.seed else None,
            wants_logprobs=offers.logprobs,
        )


@dataclass(frozen=True, slots=True)
class _Look:
    """A policy's view between two actions."""

    words: str | None
    picture: bytes | None


@dataclass
class _Talk:
    """The conversation with a model, and all its model calls. `actions` are those of an environment without pages."""

    executor: PolicyExecutor
    assignment: Assignment
    actions: tuple[ActionSpec, ...] = ()
    messages: list[ChatMessage] = field(default_factory=list)
    called: list[Called] = field(default_factory=list)

    def begin(self, seen: str | None) -> None:
        """Add the system prompt and the task. No page is open yet; an environment without pages is seen at once."""
        shown = "No page is open yet." if seen is None else seen
        told = f"{task_paragraphs(self.assignment.instruction, self.assignment.advice)}{shown}"
        wording = self.executor.wording
        system = open_system_prompt(self.actions) if self.actions else system_prompt(self.executor.sight, wording)
        whole = guided_prompt(system, self.assignment.guidance)
        self.messages += [ChatMessage("system", (whole,)), ChatMessage("user", (told,))]

    def next(self, index: int) -> Step | None:
        """The action that the model chooses; None after TRIES answers without one. Raises ModelFailure."""
        model = self.executor.model
        schema = self._schema() if model.offers.schema else None
        for _ in range(TRIES):
            request = CompletionRequest(tuple(self.messages), self.executor.sampling_for(self.assignment), schema)
            completion = model.complete(request)
            self.called.append(Called("policy", index, request, completion))
            sample = completion.samples[0]
            self.messages.append(ChatMessage("assistant", (sample.text or "(nothing)",)))
            try:
                return self._step_of(sample)
            except NotAnAction as problem:
                self.messages.append(ChatMessage("user", (f"That is no action: {problem} Answer with one action.",)))
        return None

    def _schema(self) -> Schema | None:
        if not self.actions:
            return answer_schema(SHAPES[self.executor.sight])
        return open_schema(self.actions) or self.executor.text_schema

    def _step_of(self, sample: Sample) -> Step:
        """The step of an answer. Raises NotAnAction."""
        name = self.executor.model.name
        return open_step_of(name, sample, self.actions) if self.actions else step_of(name, sample, self.executor.sight)

    def tell(self, acted: Acted, before: _Look, after: _Look) -> None:
        """Add the outcome of the model's action, and what it sees now."""
        status = "" if acted.http_status is None else f", status {acted.http_status}"
        told = f"{acted.outcome}{status}"
        if after.picture is not None:
            self.messages.append(ChatMessage("user", (told, Image("image/png", after.picture))))
        elif self.actions:
            self.messages.append(ChatMessage("user", (f"{told}\n{after.words}",)))
        else:
            self.messages.append(ChatMessage("user", (f"{told}\n{_news(acted, before.words, after.words)}",)))


def _play(talk: _Talk, surface: Surface, max_steps: int, watch: Watch) -> Execution:
    taken: list[ExecutedStep] = []
    verified: list[Verified] = []
    seen: Counter[tuple[Step, _Look]] = Counter()
    look = _look(surface, talk.executor) if talk.actions else _Look(None, None)
    talk.begin(look.words)

    def end_with(status: RunStatus) -> Execution:
        return Execution(tuple(taken), status, tuple(talk.called), tuple(verified))

    for index in range(max_steps):
        try:
            step = talk.next(index)
        except (RequestRejected, CostReached):
            if not talk.called:
                raise
            return end_with("out_of_budget")  # the first request was accepted: the conversation outgrew the context
        if step is None:
            return end_with("halted")
        seen[step, look] += 1
        if seen[step, look] == REPEATS:
            return end_with("halted")
        if step.type == "finish":
            taken.append(ExecutedStep(index, step, "ok", None, None))
            return end_with("completed")
        acted = surface.act(step)
        before, look = look, _look(surface, talk.executor)
        taken.append(
            ExecutedStep(
                index, step, acted.outcome, acted.http_status, surface.text() if acted.led else None, look.picture
            )
        )
        if (found := watch(taken[-1])) is not None:
            verified.append(found)
        if acted.is_last:
            return end_with("completed")
        talk.tell(acted, before, look)
    return end_with("out_of_budget")


def _look(surface: Surface, executor: PolicyExecutor) -> _Look:
    if executor.sight == "screenshot" and not isinstance(surface, OpenSurface):
        return _Look(None, surface.screenshot())
    words = surface.view()
    is_cut = executor.wording == "brief" and not isinstance(surface, OpenSurface)
    return _Look(_first_lines(words) if words is not None and is_cut else words, None)


def _first_lines(words: str) -> str:
    """The first lines of a view that fit into BRIEF_VIEW; at least the first one."""
    first, *others = words.splitlines()
    sizes = accumulate((len(line) + 1 for line in others), initial=len(first))
    return "\n".join(
        [first, *(line for line, size in zip(others, islice(sizes, 1, None), strict=True) if size <= BRIEF_VIEW)]
    )


def _news(acted: Acted, before: str | None, after: str | None) -> str:
    """The whole page if the action led to one, else its new lines."""
    if after is None:
        return "There is no page to be seen."
    if acted.led or before is None:
        return f"<page>\n{_PAGE_TAG.sub('', after)}\n</page>"
    known = set(before.splitlines())
    fresh = [line for line in after.splitlines() if line not in known]
    if not fresh:
        return "The page is as it was."
    return "New on the page:\n<page>\n" + _PAGE_TAG.sub("", "\n".join(fresh)) + "\n</page>"
