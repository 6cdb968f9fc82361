"""Errors of the gate. The docstring of an error is its message."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class EmptyBenchmark(FlywheelError):
    """The benchmark {benchmark} has no {actual}: expected at least one template and one sealed seed, because verdicts use sealed tasks only."""


class TooFewRepeats(FlywheelError):
    """The benchmark {benchmark} asks for {actual} repeats: expected at least {expected}."""


class DuplicateTask(FlywheelError):
    """The benchmark {benchmark} names the {what} {actual!r} more than once: expected each template at each seed once."""


class SeedBothWays(FlywheelError):
    """The seed {actual} of the benchmark {benchmark} is both visible and sealed: expected one or the other,
    because visible instances may be learned from."""


class AlphaTooSmall(FlywheelError):
    """The benchmark {benchmark} reserves {actual} millionths of alpha for {challengers} challengers:
    expected at least one challenger, and at least one millionth for each."""


class UnknownTask(FlywheelError):
    """The benchmark {benchmark} names the task {actual!r}, which its environment does not grade: expected {expected}."""


class Unseedable(FlywheelError):
    """The benchmark {benchmark} needs seeded instances, but the outcome of the seed probe on {environment} is {actual}:
    expected passed. Probe the environment again with `flywheel env probe {environment}`."""


class NotFresh(FlywheelError):
    """The benchmark {benchmark} cannot hold the task {task} of {environment} at seed {actual}: that instance {what}.
    Expected seeds that no run has used. If no seeds are given, `flywheel benchmark freeze` draws fresh ones."""


class BenchmarkExists(FlywheelError):
    """A benchmark called {actual} exists already: expected a new name. `flywheel benchmark list` shows all benchmarks."""


class AlreadySucceeded(FlywheelError):
    """The benchmark {benchmark} was succeeded by {actual}: expected a benchmark without a successor. Use {actual}."""


class NoFreshSeeds(FlywheelError):
    """Too few {what} seeds are left for the benchmark {benchmark}: expected {expected} of {among} that no run has used.
    Give the suite a wider range of {what} seeds and bring it in again, or freeze fewer instances."""


class NotFrozen(FlywheelError):
    """No benchmark {actual} was frozen with the digest {expected}: expected it in the log before an evaluation is opened on it."""


class TwoResults(FlywheelError):
    """The {arm} of {evaluation} has two results for {place} (template, seed, repeat): the runs {actual}.
    Expected one, because a choice between two results could choose the verdict. Open a new evaluation."""


class ScoreOutOfRange(FlywheelError):
    """The run {run} was graded {actual}: expected a score between 0 and {expected} in millionths."""


class ForeignRun(FlywheelError):
    """The run {run} does not belong to its arm: its {what} is {actual}, expected {expected}. Play the arm again in a new evaluation."""


class NoSamples(FlywheelError):
    """The rules set {actual} bootstrap samples: expected at least {expected}."""


class UnknownTest(FlywheelError):
    """The rules name the test {actual!r}: expected one of {expected}. Change the rules to one of these."""


class BenchmarkExhausted(FlywheelError):
    """The benchmark {benchmark} has judged {actual} challengers, inspections of its sealed part included: expected fewer than {expected}, the number that share its alpha.
    Freeze its successor with fresh seeds by `flywheel benchmark refresh {benchmark}`."""


class TooFewUnits(FlywheelError):
    """The benchmark {benchmark} can only void: it has {actual}. Nothing was opened, and no alpha was spent. Freeze a larger
    successor with `flywheel benchmark refresh {benchmark} --sealed NUMBER`, which gives each task seeds of its own."""


class AlreadyOpened(FlywheelError):
    """The evaluation {evaluation} was opened before with other artifacts, benchmark or rules: expected a new name."""


class NotOpened(FlywheelError):
    """The evaluation {evaluation} was never opened: expected an EvaluationOpened of that name. `flywheel gate list` shows all evaluations."""


class OtherEvaluation(FlywheelError):
    """The verdict does not match the evaluation {evaluation} as opened: its {what} is {actual}, expected {expected}."""


class AlreadySettled(FlywheelError):
    """The evaluation {evaluation} was settled with another verdict at position {actual}: expected the same verdict.
    Open a new evaluation to judge again."""


class ChampionMoved(FlywheelError):
    """The stream of the champion is at version {actual}, expected {expected}: another verdict or champion was recorded in between.
    Read the champion again and retry."""


class OtherChampion(FlywheelError):
    """The evaluation {evaluation} judged against {actual}, but at version {version} the champion is {expected}.
    Open a new evaluation against the current champion."""


class ReasonMissing(FlywheelError):
    """No reason was given: expected a short reason why the champion is changed by hand."""


class PieceUnknown(FlywheelError):
    """No piece of memory is called {actual!r}. List them with `flywheel rewrites list` and its neighbours `hints`, `exemplars`,
    `curriculum`, `recipes`, `skills pieces` and `instructions`."""


class PieceQuarantined(FlywheelError):
    """The piece {actual!r} is quarantined already: expected one that is not."""


class NothingBefore(FlywheelError):
    """There is no earlier champion to restore: the champion was set {actual} times, expected at least {expected}."""


class ActsElsewhere(FlywheelError):
    """The challenger {challenger} cannot be judged on {site}: its pieces {actual} act on {others}; expected to differ from the
    champion only in pieces that act on {site}. `flywheel run {site}` judges what {site} has learned."""


class NothingToDraw(FlywheelError):
    """The verdict of {evaluation} cannot be drawn: it is {actual}, and its arms have no sealed pair; expected at least one.
    `flywheel gate explain {evaluation}` shows the reasons."""


class PlotsMissing(FlywheelError):
    """matplotlib is not installed: expected {expected}. Install it with `.venv/bin/python -m pip install {way_out}`,
    or omit --plot: the same numbers are printed as text."""
