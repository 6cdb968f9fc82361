"""Errors of training; a docstring is the message. All but TrainingDiverged and ProcessEnded precede the first step."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class RequestUnreadable(FlywheelError):
    """The request {path} cannot be read: {actual}. Expected a JSON object with dataset, base, out and config, as docs/training.md shows."""


class RowsUnreadable(FlywheelError):
    """The dataset {path} cannot be read: {actual}. Expected a Parquet file written by `flywheel dataset export`."""


class DatasetEmpty(FlywheelError):
    """The dataset {path} has no rows: expected at least one. Widen its query, or run more rollouts."""


class WrongColumn(FlywheelError):
    """The dataset {path} is not a {kind} dataset: its column {column!r} is {actual}, expected {expected}. Build it with a {kind} query."""


class BadRow(FlywheelError):
    """Row {row} of the dataset {path} cannot be trained on: {actual}; expected {expected}."""


class TemperaturesMixed(FlywheelError):
    """The dataset {path} was sampled at {actual} temperatures: expected one, because the ratio is computed at the logged temperature."""


class SamplingCut(FlywheelError):
    """The dataset {path} was sampled at top_p {actual}: expected 1, because the ratio is computed over the whole vocabulary. Sample again
    at 1, or train with sft or dpo, which accept such runs."""


class NoSignal(FlywheelError):
    """All {actual} groups of the dataset {path} have zero advantages: expected a group with an advantage other than 0. Sample these instances again, or harder ones."""


class OtherTokenizer(FlywheelError):
    """The dataset {path} was built with the tokenizer {actual}, but the base model has {expected}. Build it from runs of this base."""


class OtherTemplate(FlywheelError):
    """The dataset {path} was built with the chat template {actual}, but the base model has {expected}. Build it from runs of this base."""


class TemplateUnfit(FlywheelError):
    """Demonstrations cannot be tokenised with the chat template: {actual}. Expected a template that depends only on tokenizer.json and the
    messages, and ends each answer with a special token."""


class IdOutsideVocabulary(FlywheelError):
    """Row {row} of the dataset {path} holds the token id {actual} in {column}: expected ids from 0 to {expected}."""


class RowTooLong(FlywheelError):
    """Row {row} of the dataset {path} has {actual} tokens: the base model accepts at most {expected}. Exclude such runs from the query."""


class StalePolicy(FlywheelError):
    """The logged log-probabilities differ from those of the initial weights by {actual} on average over {tokens} tokens: expected
    at most {expected}. Train from the policy that sampled these runs, or sample again with the initial weights."""


class RatiosOutside(FlywheelError):
    """Before the first step {actual} of {tokens} tokens have a ratio outside {least} to {most}: expected at most {expected}. Some
    answers were not sampled by the initial weights over the whole vocabulary (a schema, a grammar, another endpoint); exclude them."""


class GroupsUneven(FlywheelError):
    """The backend trl needs groups of equal size: these have {actual} rows. Use the backend own, which accepts any sizes."""


class NotSupported(FlywheelError):
    """The backend {backend} does not support this configuration: {actual}; expected {expected}. Change the configuration."""


class StepUneven(FlywheelError):
    """A step cannot be divided among processes: there are {actual}, expected a multiple of the {expected} processes. Change `{field}` or
    `processes`; for the last step of an epoch, remove rows from the dataset or train fewer steps."""


class ProcessOutOfMemory(FlywheelError):
    """The training process needed more memory than there was and {actual}; {expected}. Train with --rows-per-pass 1, or with
    `checkpointing` in --config, or on a machine with more memory. Its output: {said}"""


class ProcessEnded(FlywheelError):
    """Process {rank} of {processes} training processes exited with code {actual}: expected a last line `saved` or `failed`. Its output: {said}"""


class LoraDiffers(FlywheelError):
    """The request sets the adapter shape {actual}, but its parent has {expected}: expected the parent's shape. Omit `lora` to use it."""


class AdapterMismatch(FlywheelError):
    """The adapter of {path} does not fit the base model: {actual}. Expected {expected}."""


class TrainingDiverged(FlywheelError):
    """The loss at step {step} is {actual}: expected a finite number. Lower the learning rate; nothing was saved."""


class NotConvertible(FlywheelError):
    """The {what} of a {architecture} model cannot be written as GGUF: {actual}. Expected {expected}."""


class GgufUnreadable(FlywheelError):
    """The file {path} cannot be read as GGUF: {actual}. Expected a complete model file; copy or download it again."""


class OutTaken(FlywheelError):
    """The path {path} exists already: expected an unused path, because an export overwrites nothing."""


class ExportMismatch(FlywheelError):
    """The file {path} does not contain what was written: the tensor {tensor} {actual}. Expected {expected}; check the disk and export again."""
