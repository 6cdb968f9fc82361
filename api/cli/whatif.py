"""`flywheel what-if`: report how the same runs would have been judged under another rule or reward."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from eventlog.store import Position
from gate.figures import count_noun, decimal, dollars, shorten_tiny
from projections.moves import StatusChange

from ..history.whatif.compose import if_reward, if_rule
from ..history.whatif.definitions import as_toml, read_reward, read_rule, reward_in_force, rule_in_force
from ..history.whatif.report import RewardWouldBe, RewriteWouldBe, VerdictWouldBe, WhatIf
from ..house import House
from .output import AsJson, emit_json, open_project, say, spinner

MOST_NAMED = 5
COUNTS = frozenset({"pairs", "missing", "runs", "passed"})

NOT_PLAYED_AGAIN = "Runs are not played again: a run that would have carried other pieces keeps its recorded outcome."


def what_if(
    rule: Annotated[Path | None, typer.Option(help="A promotion rule, in TOML or (ending .json) JSON.")] = None,
    reward: Annotated[Path | None, typer.Option(help="A reward definition, in TOML or (ending .json) JSON.")] = None,
    to: Annotated[
        str | None, typer.Option(metavar="POSITION|TIME", help="Last position or time to include. Default: the head.")
    ] = None,
    print_rule: Annotated[
        bool, typer.Option("--print-rule", help="Print the rule in force as a file to edit.")
    ] = False,
    print_reward: Annotated[
        bool, typer.Option("--print-reward", help="Print the reward in force as a file to edit.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Report what another rule or reward would have decided.

    Recomputes promotions, rewards and verdicts. Appends nothing. Runs are not played again: a run that would have
    carried other pieces keeps its recorded outcome.
    """
    if sum((rule is not None, reward is not None, print_rule, print_reward)) != 1:
        raise typer.BadParameter("expected one of --rule FILE, --reward FILE, --print-rule and --print-reward")
    asked_rule = None if rule is None else read_rule(rule)
    asked_reward = None if reward is None else read_reward(reward)
    with open_project() as house:
        upto = house.views_at(to).upto
        if print_rule or print_reward:
            _print_in_force(house, upto, is_rule=print_rule, as_json=as_json)
            return
        with spinner("folding history again"):
            if asked_rule is not None:
                found = if_rule(house.store, house.views, asked_rule, upto)
            elif asked_reward is not None:
                found = if_reward(house.store, house.blobs, house.views, asked_reward, upto)
    if as_json:
        emit_json(dataclasses.asdict(found))
        return
    for line in describe_what_if(found):
        say(line)


def _print_in_force(house: House, upto: Position, *, is_rule: bool, as_json: bool) -> None:
    found = rule_in_force(house.store, upto) if is_rule else reward_in_force(house.store, upto)
    emit_json(found.model_dump(mode="json", exclude_none=True)) if as_json else say(as_toml(found))


def describe_what_if(found: WhatIf) -> Iterator[str]:
    """The report of a what-if as text lines."""
    asked = found.rule if found.rule is not None else found.reward
    what = "rule" if found.rule is not None else "reward"
    yield f"The same runs up to position {found.upto} under the {what} {_plain(asked or {})}"
    if found.is_empty:
        yield "Nothing would differ from recorded history."
        return
    yield NOT_PLAYED_AGAIN
    sections = (
        ("rewrites", [_rewrite(item) for item in found.rewrites]),
        ("rewards", _rewards(found.rewards)),
        ("cannot grade", _bullet_lines([f"{item.run}: {item.why}" for item in found.ungraded])),
        ("verdicts", [line for item in found.verdicts for line in _verdict(item)]),
        (
            "champion",
            [f"{found.champion.actual or 'none'} → {found.champion.would or 'none'}"] if found.champion else [],
        ),
    )
    for name, lines in sections:
        if lines:
            yield f"\n{name}"
            yield from (f"  {line}" for line in lines)


def _plain(definition: object) -> str:
    pairs = definition.items() if isinstance(definition, dict) else ()
    return ", ".join(
        f"{name} {f'({_plain(value)})' if isinstance(value, dict) else value}"
        for name, value in pairs
        if value is not None
    )


def _bullet_lines(lines: Sequence[str]) -> list[str]:
    more = len(lines) - MOST_NAMED
    return [*lines[:MOST_NAMED], *([f"and {more} more; --json lists all"] if more > 0 else [])]


def _rewrite(item: RewriteWouldBe) -> str:
    wins = f"; on the wins of {', '.join(item.wins)}" if item.wins else ""
    return f"{item.rewrite}: {_path(item.would)}; recorded: {_path(item.actual)}{wins}"


def _path(turns: tuple[StatusChange, ...]) -> str:
    return " → ".join(f"{turn.status} at {turn.since}" for turn in turns)


def _rewards(moved: Sequence[RewardWouldBe]) -> list[str]:
    if not moved:
        return []
    flips = [
        f"{item.run} would {'pass' if item.would.passed else 'fail'}"
        for item in moved
        if item.would.passed != item.actual.passed
    ]
    known = [
        (item.would.value or 0) - (item.actual.value or 0)
        for item in moved
        if item.actual.value is not None and item.would.value is not None
    ]
    mean = f", value changed by {decimal(sum(known) // len(known))} on average" if any(known) else ""
    return [f"{count_noun(len(moved), 'run')} would be graded differently{mean}", *_bullet_lines(flips)]


def _verdict(item: VerdictWouldBe) -> list[str]:
    figures = [
        f"  {each.name}: {_figure(each.name, each.actual)} → {_figure(each.name, each.would)}" for each in item.figures
    ]
    decision = item.actual if item.would == item.actual else f"{item.actual} → {item.would}"
    return [shorten_tiny(f"{item.evaluation}: {decision}: {'; '.join(item.reasons)}"), *figures]


def _figure(name: str, value: object) -> str:
    """A figure of a verdict as text: counts as integers, costs in dollars, the rest as decimals."""
    match value:
        case int() if name.endswith("cost"):
            return dollars(value)
        case int() if name.rpartition(" ")[2] in COUNTS:
            return str(value)
        case int():
            return decimal(value)
        case {"low": int(low), "high": int(high)}:
            return f"[{decimal(low)}, {decimal(high)}]"
        case [*names]:
            return ", ".join(map(str, names)) or "none"
        case _:
            return "not computed" if value is None else str(value)
