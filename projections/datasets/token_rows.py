"""Token rows of a policy's runs for training, with the columns of `row_columns`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from eventlog.events import DpoQuery, GrpoQuery, SftQuery

from ..groups import GroupState
from .advantages import NANO, advantages, centred_rewards
from .curation import SelectedSibling, reward_of
from .packing import Content, Value
from .plan_rows import ConversationMessage
from .row_columns import MESSAGE, MESSAGES, SCHEMAS, Kind
from .sampled import SampledCall, Stretch, stretches

_MICRO = 1_000_000

Conversation = Callable[[str], Sequence[tuple[str, ConversationMessage]]]
"""Returns the messages of the conversation at an address, in order, each with its own address."""

_DIVIDED = {"advantage": NANO, "temperature": _MICRO, "top_p": _MICRO}
"""Row values that are integers in content but floats in columns, with the divisor of each."""


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The rows of one group, and the refusal reasons of selected siblings without rows, by run."""

    rows: tuple[Content, ...]
    refused: Mapping[str, str]


def token_rows(
    query: SftQuery | DpoQuery | GrpoQuery, group: GroupState, taken: Sequence[SelectedSibling], said: Conversation
) -> GroupRows:
    """Build the rows of the selected siblings, in order of sibling."""
    if isinstance(query, DpoQuery):
        return _pair_rows(query, group, taken, said)
    if isinstance(query, GrpoQuery):
        return GroupRows(tuple(_grpo(query, group, taken, said)), {})
    reward = "value" if query.floor is None else query.floor.reward
    rows = (
        {"messages": (*prompt, *answer), **_tokens(stretch), **_of_run(each, stretch, reward_of(each.sibling, reward))}
        | _origin(group, each, stretch.calls)
        for each in taken
        for stretch in stretches(each.calls)
        for prompt, answer in (_words(stretch, said),)
    )
    return GroupRows(tuple(rows), {})


def _grpo(
    query: GrpoQuery, group: GroupState, taken: Sequence[SelectedSibling], said: Conversation
) -> Iterator[Content]:
    """A row for each stretch of calls, with the run's advantage over the selected runs."""
    rewards = [reward_of(each.sibling, query.reward) or 0 for each in taken]  # unknown rewards were refused before
    found = _advantages(query, rewards) if taken else ()
    for each, reward, advantage in zip(taken, rewards, found, strict=True):
        for stretch in stretches(each.calls):
            prompt, answer = _words(stretch, said)
            drawn: dict[str, Value] = {"prompt": prompt, "completion": answer, "logprobs": stretch.logprobs}
            drawn |= {"advantage": advantage, **_tokens(stretch), **_of_run(each, stretch, reward)}
            yield drawn | _origin(group, each, stretch.calls)


def _advantages(query: GrpoQuery, rewards: Sequence[int]) -> tuple[int, ...]:
    return centred_rewards(rewards) if query.scale == "none" else advantages(rewards, query.ddof, query.eps)


def _pair_rows(query: DpoQuery, group: GroupState, taken: Sequence[SelectedSibling], said: Conversation) -> GroupRows:
    """Rows for pairs of runs, widest margin first, then in order of names."""
    whole = {each.sibling.run: stretches(each.calls) for each in taken}
    refused = {run: "split" for run, found in whole.items() if len(found) > 1}
    fit = [each for each in taken if each.sibling.run not in refused]
    pairs = [
        (chosen, rejected, margin)
        for chosen in fit
        for rejected in fit
        if (margin := _margin(query, chosen, rejected)) >= query.margin
        and _differ(whole[chosen.sibling.run][0], whole[rejected.sibling.run][0])
        and _tokenised_alike(chosen, rejected)
    ]
    pairs.sort(key=lambda pair: (-pair[2], pair[0].sibling.run.encode(), pair[1].sibling.run.encode()))
    rows = []
    for chosen, rejected, _ in pairs[: query.max_pairs]:
        ours, theirs = whole[chosen.sibling.run][0], whole[rejected.sibling.run][0]
        (prompt, won), (_, lost) = _words(ours, said), _words(theirs, said)
        texts: dict[str, Value] = {"prompt": prompt, "chosen": won, "rejected": lost, "prompt_ids": ours.prompt_ids}
        sides = _side("chosen", query, chosen, ours) | _side("rejected", query, rejected, theirs)
        last = max(chosen.facts.position or 0, rejected.facts.position or 0)
        rows.append(texts | sides | _origin(group, chosen, (*ours.calls, *theirs.calls)) | {"position": last})
    paired = {row[side] for row in rows for side in ("chosen_run", "rejected_run")}
    return GroupRows(tuple(rows), refused | {e.sibling.run: "no_pair" for e in fit if e.sibling.run not in paired})


def _margin(query: DpoQuery, chosen: SelectedSibling, rejected: SelectedSibling) -> int:
    return (reward_of(chosen.sibling, query.reward) or 0) - (reward_of(rejected.sibling, query.reward) or 0)


def _differ(chosen: Stretch, rejected: Stretch) -> bool:
    """True if the stretches are different completions of the same prompt."""
    return chosen.prompt_ids == rejected.prompt_ids and chosen.completion_ids != rejected.completion_ids


def _tokenised_alike(chosen: SelectedSibling, rejected: SelectedSibling) -> bool:
    ours, theirs = chosen.calls[0], rejected.calls[0]
    return (ours.tokenizer, ours.chat_template) == (theirs.tokenizer, theirs.chat_template)


def _side(side: str, query: DpoQuery, each: SelectedSibling, stretch: Stretch) -> dict[str, Value]:
    return {
        f"{side}_ids": stretch.completion_ids,
        f"{side}_mask": stretch.mask,
        f"{side}_truncated": _is_truncated(stretch),
        f"{side}_run": each.sibling.run,
        f"{side}_artifact": each.facts.artifact,
        f"{side}_reward": reward_of(each.sibling, query.reward),
    }


def _tokens(stretch: Stretch) -> dict[str, Value]:
    return {"prompt_ids": stretch.prompt_ids, "completion_ids": stretch.completion_ids, "mask": stretch.mask}


def _of_run(each: SelectedSibling, stretch: Stretch, reward: int | None) -> dict[str, Value]:
    """Columns of the run. `call` is the index of the row's first call in its run, `calls` the number of its calls."""
    return {
        "run": each.sibling.run,
        "sibling": each.sibling.index,
        "call": stretch.calls[0].fact.index,
        "calls": len(stretch.calls),
        "truncated": _is_truncated(stretch),
        "artifact": each.facts.artifact,
        "score": each.sibling.score,
        "reward": reward,
    }


def _is_truncated(stretch: Stretch) -> bool:
    return any(call.is_cut for call in stretch.calls)


def _origin(group: GroupState, each: SelectedSibling, calls: Sequence[SampledCall]) -> dict[str, Value]:
    """Columns of the origin. `max_tokens` is the maximum over the calls, `stop` the union of their stop texts."""
    drawn_so = [call.fact.sampling for call in calls]
    policy = each.calls[0].policy(each.facts.weights)
    return {
        "group": group.group,
        "template": group.template,
        "env_seed": group.env_seed,
        "position": each.facts.position,
        "weights": policy.weights,
        "model": policy.model,
        "tokenizer": policy.tokenizer,
        "chat_template": policy.chat_template,
        "temperature": policy.temperature,
        "top_p": policy.top_p,
        "max_tokens": max(int(sampling["max_tokens"]) for sampling in drawn_so),
        "stop": sorted({text for sampling in drawn_so for text in sampling["stop"]}),
    }


def _words(
    stretch: Stretch, said: Conversation
) -> tuple[tuple[ConversationMessage, ...], tuple[ConversationMessage, ...]]:
    """The messages before a row's first answer (prompt), and those from it up to the last answer (completion).

    If the last call's messages do not extend those of the first, the completion holds only the answers.
    """
    first, last = stretch.calls[0], stretch.calls[-1]
    whole = said(last.fact.messages)
    head = next((place for place, (address, _) in enumerate(whole, 1) if address == first.fact.messages), None)
    if head is None:
        prompt = tuple(message for _, message in said(first.fact.messages))
        return prompt, tuple(ConversationMessage("assistant", call.text) for call in stretch.calls)
    told = tuple(message for _, message in whole)
    return told[:head], (*told[head:], ConversationMessage("assistant", last.text))


def frame_of(kind: Kind, rows: Sequence[Content]) -> pl.DataFrame:
    """Rows as a frame with the columns of their kind, also without rows."""
    columns = {name: _column(name, dtype, [row[name] for row in rows]) for name, dtype in SCHEMAS[kind].items()}
    return pl.DataFrame(columns)


def _column(name: str, dtype: pl.DataType, values: Sequence[Value]) -> pl.Series:
    if name in _DIVIDED:
        quotients = [value / _DIVIDED[name] for value in values if isinstance(value, int)]  # Polars rounds differently
        return pl.Series(name, quotients, dtype=dtype)
    if dtype == MESSAGES:
        said = [message for each in values if isinstance(each, tuple) for message in each]
        turns = pl.DataFrame({"role": [m.role for m in said], "content": [m.content for m in said]}, MESSAGE)
        return _list_series(name, turns.to_struct(name), values)
    if isinstance(dtype, pl.List):
        flat = [item for each in values if isinstance(each, list) for item in each]
        return _list_series(name, pl.Series(name, flat, dtype=dtype.inner), values)
    return pl.Series(name, values, dtype=dtype)


def _list_series(name: str, flat: pl.Series, values: Sequence[Value]) -> pl.Series:
    """Split a flat series into one list for each row. Polars does it ten times faster than list by list."""
    sizes = [len(each) for each in values if isinstance(each, list | tuple)]
    rows = pl.DataFrame({"row": range(len(sizes)), "size": sizes}, {"row": pl.UInt32, "size": pl.UInt32})
    full = rows.filter(pl.col("size") > 0).select(pl.col("row").repeat_by("size").list.explode(empty_as_null=False))
    lists = full.with_columns(flat.alias(name)).group_by("row", maintain_order=True).agg(pl.col(name))
    empty = pl.Series(name, [[]], dtype=pl.List(flat.dtype))
    joined = rows.select("row").join(lists, on="row", how="left", maintain_order="left")
    return joined[name].fill_null(empty.first()) if len(lists) < len(sizes) else joined[name]
