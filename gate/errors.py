"""What the gate refuses: the docstring is the message."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class EmptyBenchmark(FlywheelError):
    """The benchmark {benchmark} has no {actual}: expected at least one template and one sealed seed, because sealed tasks decide."""


class TooFewRepeats(FlywheelError):
    """The benchmark {benchmark} asks for {actual} repeats: expected at least {expected}."""


class DuplicateTask(FlywheelError):
    """The benchmark {benchmark} names the {what} {actual!r} more than once: expected each template at each seed once."""


class SeedBothWays(FlywheelError):
    """The seed {actual} of the benchmark {benchmark} is both visible and sealed: expected one or the other,
    because what is visible may be learned from."""


class AlphaTooSmall(FlywheelError):
    """The benchmark {benchmark} sets aside {actual} millionths of alpha for {challengers} challengers:
    expected at least one challenger, and at least one millionth for each."""


class UnknownTask(FlywheelError):
    """The benchmark {benchmark} names the task {actual!r}, which its environment does not grade: expected {expected}."""


class Unseedable(FlywheelError):
    """The benchmark {benchmark} needs instances by seed, and the probe of seeds on {environment} came out as {actual}:
    expected passed. Probe it again with `flywheel env probe {environment}`."""


class NotFresh(FlywheelError):
    """The benchmark {benchmark} cannot hold the task {task} of {environment} at seed {actual}: that instance {what}.
    Expected seeds that nobody has seen; without seeds of your own, `flywheel benchmark freeze` draws some."""


class BenchmarkExists(FlywheelError):
    """A benchmark called {actual} was frozen before: expected a new name. `flywheel benchmark list` shows what there is."""


class AlreadySucceeded(FlywheelError):
    """The benchmark {benchmark} was succeeded by {actual}: expected one that nothing stands in the place of. Refresh {actual}."""


class NoFreshSeeds(FlywheelError):
    """Too few {what} seeds are left for the benchmark {benchmark}: expected {expected} of {among} that nobody has seen."""


class NotFrozen(FlywheelError):
    """No benchmark {actual} was frozen with the digest {expected}: expected it in the log before it is played."""


class TwoResults(FlywheelError):
    """The {arm} of {evaluation} has two results for {place} (template, seed, repeat): the runs {actual}.
    Expected one, because whoever may choose between two may choose the verdict; open a new evaluation."""


class ScoreOutOfRange(FlywheelError):
    """The run {run} was graded {actual}: expected a score between 0 and {expected} in millionths."""


class ForeignRun(FlywheelError):
    """The run {run} does not belong to its arm: its {what} is {actual}, expected {expected}. Play the arm again in a new evaluation."""


class NoSamples(FlywheelError):
    """The rules ask for {actual} bootstrap samples: expected at least {expected}."""


class UnknownTest(FlywheelError):
    """The rules ask for the test {actual!r}: expected one of {expected}. Write the rules again with one of these."""


class BenchmarkExhausted(FlywheelError):
    """The benchmark {benchmark} has judged {actual} challengers: expected fewer than {expected}, for which its alpha was set aside.
    Freeze its successor from fresh seeds with `flywheel benchmark refresh {benchmark}`."""


class AlreadyOpened(FlywheelError):
    """The evaluation {evaluation} was opened before with other artifacts, benchmark or rules: expected a new name."""


class NotOpened(FlywheelError):
    """The evaluation {evaluation} was never opened: expected an EvaluationOpened of that name. `flywheel gate list` shows what was."""


class OtherEvaluation(FlywheelError):
    """The verdict is not on what the evaluation {evaluation} opened: its {what} is {actual}, expected {expected}."""


class AlreadySettled(FlywheelError):
    """The evaluation {evaluation} was settled with another verdict at position {actual}: expected the same verdict.
    Open a new evaluation to judge again."""


class ChampionMoved(FlywheelError):
    """The stream of the champion is at version {actual}, expected {expected}: something was settled or pointed meanwhile.
    Read the champion again and decide again."""


class OtherChampion(FlywheelError):
    """The evaluation {evaluation} judged against {actual}, but at version {version} the champion is {expected}.
    Evaluate against the present champion."""


class ReasonMissing(FlywheelError):
    """No reason was given: expected a few words on why the champion is moved by hand."""


class NothingBefore(FlywheelError):
    """There is nothing to go back to: the champion was pointed {actual} times, expected at least {expected}."""


class NothingToDraw(FlywheelError):
    """The verdict of {evaluation} cannot be drawn: it is {actual}, and its arms have no sealed pair; expected at least one.
    `flywheel gate explain {evaluation}` says why."""


class PlotsMissing(FlywheelError):
    """There is no matplotlib to draw with: expected {expected}. Install it with `.venv/bin/python -m pip install {way_out}`,
    or leave --plot out: the same numbers come in words."""
