"""What training refuses: the docstring is the message. All but what diverged or died is said before the first step."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class RequestUnreadable(FlywheelError):
    """The request {path} cannot be read: {actual}. Expected a JSON object with dataset, base, out and config, as docs/training.md shows."""


class RowsUnreadable(FlywheelError):
    """The dataset {path} cannot be read: {actual}. Expected a Parquet file as `flywheel dataset export` writes it."""


class DatasetEmpty(FlywheelError):
    """The dataset {path} has no rows: expected at least one. Widen its query, or run more rollouts."""


class WrongColumn(FlywheelError):
    """The dataset {path} is no {kind} dataset: its column {column!r} is {actual}, expected {expected}. Build it with a {kind} query."""


class BadRow(FlywheelError):
    """Row {row} of the dataset {path} cannot be trained on: {actual}; expected {expected}."""


class TemperaturesMixed(FlywheelError):
    """The dataset {path} was sampled at {actual} temperatures: expected one, because the ratio is taken at the temperature of the log."""


class SamplingCut(FlywheelError):
    """The dataset {path} was sampled at top_p {actual}: expected 1, because the ratio is taken over the whole vocabulary. Sample again
    at 1; sft and dpo take such runs."""


class NoSignal(FlywheelError):
    """All {actual} groups of the dataset {path} are flat: expected one in which an advantage is not 0. Sample the instances again, or harder ones."""


class OtherTokenizer(FlywheelError):
    """The dataset {path} was made with the tokenizer {actual}, the base model has {expected}. Build it from runs of this base."""


class OtherTemplate(FlywheelError):
    """The dataset {path} was made with the chat template {actual}, the base model has {expected}. Build it from runs of this base."""


class TemplateUnfit(FlywheelError):
    """No demonstration can be tokenised with the chat template: {actual}. Expected one that follows from tokenizer.json and the messages
    alone, and ends each answer with a special token."""


class IdOutsideVocabulary(FlywheelError):
    """Row {row} of the dataset {path} holds the token id {actual} in {column}: expected ids from 0 to {expected}."""


class RowTooLong(FlywheelError):
    """Row {row} of the dataset {path} has {actual} tokens: the base model takes {expected}. Leave such runs out of the query."""


class StalePolicy(FlywheelError):
    """The log and the weights that training starts from differ by {actual} in log-probability, on average over {tokens} tokens: the
    bound is {expected}. Train from the policy that sampled these runs, or sample again with this one."""


class GroupsUneven(FlywheelError):
    """The backend trl needs groups of one size: these have {actual} rows. Use the backend own, which takes any."""


class NotSupported(FlywheelError):
    """The backend {backend} cannot do this: {actual}; expected {expected}. Change the configuration."""


class StepUneven(FlywheelError):
    """A step cannot be shared out: there are {actual}, expected a multiple of the {expected} processes. Change `{field}` or `processes`;
    of what a round leaves over, leave rows out of the dataset, or take fewer steps."""


class ProcessEnded(FlywheelError):
    """Process {rank} of the {processes} that train together ended with {actual}: expected its last word. It said: {said}"""


class LoraDiffers(FlywheelError):
    """The request asks for the adapter {actual}, its parent is {expected}: an adapter keeps its shape. Leave `lora` out to go on with it."""


class AdapterMismatch(FlywheelError):
    """The adapter of {path} does not fit the base model: {actual}. Expected {expected}."""


class TrainingDiverged(FlywheelError):
    """The loss at step {step} is {actual}: expected a finite number. Lower the learning rate; nothing was saved."""


class NotConvertible(FlywheelError):
    """The {what} of a {architecture} model cannot be written as GGUF: {actual}. Expected {expected}."""


class OutTaken(FlywheelError):
    """There is something at {path} already: expected a name that is free, because an export overwrites nothing."""


class ExportMismatch(FlywheelError):
    """The file {path} does not hold what was written: the tensor {tensor} {actual}. Expected {expected}; write it again on a sound disk."""
