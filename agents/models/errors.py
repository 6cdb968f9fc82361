"""What goes wrong with a model. No message ever holds a key or a prompt."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class ModelFailure(FlywheelError):
    """{message}."""


class BadEndpoint(ModelFailure):
    """The model endpoint {url!r} cannot be used: {actual}; expected {expected}."""


class ModelUnreachable(ModelFailure):
    """The model endpoint {url} does not answer: {actual}, at try {tries}. Expected an answer within {timeout_s} s.
    Start the server or check the address; what was asked may be asked again."""


class ModelOverloaded(ModelFailure):
    """The model endpoint {url} turned a request away with status {actual} at try {tries}: {said}. Expected an answer;
    ask later (it named {retry_after_s} s), or less at once."""


class ModelRefused(ModelFailure):
    """The model endpoint {url} refused the key with status {actual}: {said}. Expected a key that it accepts; check the one that was
    given."""


class ModelUnknown(ModelFailure):
    """The model endpoint {url} knows no such address or model (status 404): {said}. Expected a model that it serves, and a base
    address that ends as its documentation says, mostly in /v1."""


class RequestRejected(ModelFailure):
    """The model endpoint {url} cannot take the request, status {actual}: {said}. Expected one that fits the model: fewer tokens,
    or without what it does not offer."""


class AnswerBroken(ModelFailure):
    """The model endpoint {url} answered in another shape: {actual}; expected {expected}."""


class AnswerUnstructured(ModelFailure):
    """The model {model} did not answer as {shape}: {actual}; expected JSON of that shape.
    Give it more tokens if it ran out of them (it ended with {finish!r}), or ask a model that keeps to a schema."""


class NotOffered(ModelFailure):
    """The model {model} offers no {actual}: expected a request without, or another backend."""


class ScriptEnded(ModelFailure):
    """The script of {model} has {expected} answers and was asked once more: expected no further question."""


class BaseUnfit(ModelFailure):
    """The base model {path} cannot be drawn from: {actual}; expected {expected}. Name the folder of a base model, as training makes it."""


class AdapterUnfit(ModelFailure):
    """The checkpoint {path} cannot be put on the base model: {actual}; expected {expected}."""


class LibrariesMissing(ModelFailure):
    """The model {path} needs libraries that are not installed: {actual}; expected those of the extra `train`. Run `make setup`."""


class LogitsBroken(ModelFailure):
    """The weights gave a logit that is no finite number: expected finite ones. Train again from a checkpoint that is sound."""


class DrawingFailed(ModelFailure):
    """The model {model} could not draw: {actual}; expected tokens. Its libraries failed: look at the memory of the device, and at the
    weights."""


class ModelClosed(ModelFailure):
    """The model {model} was closed: expected it to stay open for as long as it is asked."""
