"""What goes wrong with an environment, kept apart from anything that an agent did."""

from __future__ import annotations

from eventlog.errors import FlywheelError

from .addresses import shown_in


class EnvironmentFailure(FlywheelError):
    """{message}."""

    def __init__(self, **facts: object) -> None:
        # What failed ends up in the log: no address in it may let anyone in.
        super().__init__(**{name: shown_in(fact) if isinstance(fact, str) else fact for name, fact in facts.items()})


class EnvironmentDown(EnvironmentFailure):
    """The environment at {url} does not answer {operation}: {actual}. Expected an answer within {timeout_s} s.
    Start the site or check the address; a run that met this says nothing about its agent."""


class EnvironmentRefused(EnvironmentFailure):
    """The environment at {url} refused {operation} with status {actual}: expected the admin token that the site was started with.
    Check the token, and the extra headers if a preview proxy stands before the site."""


class LoginPage(EnvironmentRefused):
    """The address {url} answered {operation} with {actual}, not with JSON: the login page of a proxy that stands before the site,
    or no admin surface at all. Give the headers that the proxy asks for, and check the address."""


class ContractBroken(EnvironmentFailure):
    """The environment at {url} broke the contract in {operation}: {actual}; expected {expected}.
    docs/environments.md says what each endpoint answers."""


class InstanceClosed(EnvironmentFailure):
    """The environment at {url} has no instance {actual}: expected one that was reset and not closed since.
    It was closed, pushed out by newer instances, or lost in a restart; reset again with the same seed."""


class NotSeedable(ContractBroken):
    """The environment at {url} is not seedable: {actual}; expected {expected}.
    Seeds must change what its state answer says, or what a witness page of its dialect shows."""


class SeedLost(ContractBroken):
    """The environment at {url} did not take seed {seed}: its state is {actual}, and was {expected} after the same seed before.
    It went back to another seed, somebody else acts on it, or its dialect lacks a field that never stays the same."""


class LeaseTaken(EnvironmentFailure):
    """The lease of {key} was not free within {timeout_s} s: it is held by {actual}; expected its holder to be done.
    A site with one instance serves one run at a time; wait longer, or end what holds it."""


class LeaseLost(EnvironmentFailure):
    """The lease of {key} was lost while it was held: {actual}. Another run may have acted on the site meanwhile, so
    this one has no grade; play it again."""


class TaskNotGraded(EnvironmentFailure):
    """The environment at {url} grades no task {actual!r}: expected one of {expected}."""


class UnknownSite(FlywheelError):
    """There is no site {actual!r}: expected one of {expected}."""


class WeakToken(FlywheelError):
    """The admin token has {actual} characters: expected at least {expected}. Give the site a random one."""


class SitePortInUse(FlywheelError):
    """The port {port} on {host} cannot be taken: {actual}. Expected a free port; choose another one, or 0 for any free one."""


class SiteDied(FlywheelError):
    """The site {site} ended with exit status {actual} before it was ready: expected it to serve. Its last words: {stderr}"""


class SiteNotReady(FlywheelError):
    """The site {site} was not ready: {actual}. Expected one line of JSON on its standard output within {timeout_s} s."""


class SiteUnhealthy(FlywheelError):
    """The site {site} was not healthy within {timeout_s} s: {actual}; expected its command to print its address and to answer there."""


class BadSiteUrl(FlywheelError):
    """The address {actual!r} of the site {site} cannot be used: expected http:// or https:// with a host."""

    is_usage = True


class BadDialect(FlywheelError):
    """The file {file} describes no dialect: {actual}; expected {expected}. docs/environments.md names the fields."""

    is_usage = True


class BrowserMissing(FlywheelError):
    """There is no {what} to do it in a browser: {actual}; expected {expected}.
    Install it with: {way_out}. On our own sites no browser is needed with --executor plan."""


class SandboxFailed(EnvironmentFailure):
    """The sandbox of the site {site} could not be {operation}: {actual}. Expected Daytona to do it within {timeout_s} s;
    look at the sandbox, the key and the quota there."""


class DaytonaMissing(FlywheelError):
    """Daytona's own library is not installed: expected {expected}. Install flywheel with the extra `daytona`."""


class NotAdmitted(FlywheelError):
    """The environment {environment} is not admitted: {actual}. Expected one whose probes all passed with the tasks that it grades now.
    Run `flywheel env probe {environment}`, or for a site that runs elsewhere `flywheel env probe URL --admin-url URL`."""


class OtherSite(FlywheelError):
    """The site at {url} says that it is {actual!r}: expected {expected!r}, which was asked for and whose admission and runs are meant.
    Check the address, or ask for the site by its own name."""


class AdmittedOtherwise(FlywheelError):
    """The environment was admitted on this probe before, at position {actual}, by somebody else or for another reason:
    expected one admission for each probe. Probe it again to admit it anew."""
