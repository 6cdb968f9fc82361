"""Errors of a webhook, its secret and its receiver."""

from __future__ import annotations

from eventlog.errors import FlywheelError


class SecretUnfit(FlywheelError):
    """The secret in {variable} cannot sign messages: {actual}. Expected at least 24 bytes, as text or as whsec_ and base64."""


class BadWebhookUrl(FlywheelError):
    """{actual!r} is no address for a webhook: expected https://HOST/PATH without user, password, query and fragment, because the
    log is read by many."""

    is_usage = True


class BadNetworks(FlywheelError):
    """FLYWHEEL_WEBHOOK_NETWORKS is {actual!r}: {fault}. Expected networks such as 10.1.0.0/16, 127.0.0.1."""


class AddressRefused(FlywheelError):
    """{host} is at {actual}, which is refused: {why}. If it is meant, name its network in FLYWHEEL_WEBHOOK_NETWORKS."""


class WebhookFailed(FlywheelError):
    """The receiver did not take the message: {actual}."""


class TooManyWebhooks(FlywheelError):
    """The project has {actual} webhooks: expected at most {expected}. Remove one with `flywheel webhook remove`."""
