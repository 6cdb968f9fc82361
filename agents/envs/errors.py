"""Failures of environments, kept apart from failures of agents."""

from __future__ import annotations

from eventlog.errors import FlywheelError

from .addresses import shown_in


class EnvironmentFailure(FlywheelError):
    """{message}."""

    def __init__(self, **facts: object) -> None:
        # Failures are logged, so their addresses must not contain credentials.
        super().__init__(**{name: shown_in(fact) if isinstance(fact, str) else fact for name, fact in facts.items()})


class EnvironmentDown(EnvironmentFailure):
    """The environment at {url} does not answer {operation}: {actual}. Expected an answer within {timeout_s} s.
    Start the site or check the address; the failure does not count against an agent."""


class EnvironmentRefused(EnvironmentFailure):
    """The environment at {url} refused {operation} with status {actual}: expected the admin token that the site was started with.
    Check the token, and the extra headers if the site is behind a preview proxy."""


class NoPages(EnvironmentFailure):
    """The instance {actual} has no pages, because its environment is no web site: expected an executor that takes the
    environment's own actions. Use --executor policy."""


class LoginPage(EnvironmentRefused):
    """The address {url} answered {operation} with {actual}, not with JSON: the login page of a proxy,
    or no admin surface at all. Pass the headers that the proxy needs, and check the address."""


class ContractBroken(EnvironmentFailure):
    """The environment at {url} broke the contract in {operation}: {actual}; expected {expected}.
    docs/environments.md says what each endpoint answers."""


class InstanceClosed(EnvironmentFailure):
    """The environment at {url} has no instance {actual}: expected one that was reset and not closed since.
    It was closed, pushed out by newer instances, or lost in a restart; reset again with the same seed."""


class NotSeedable(ContractBroken):
    """The environment at {url} is not seedable: {actual}; expected {expected}.
    Different seeds must change the site's state answer, or a witness page of its dialect."""


class SeedLost(ContractBroken):
    """The environment at {url} is not at seed {seed}: its state is {actual}, but was {expected} after the same seed before.
    It was reset to another seed, another client acts on it, or its dialect does not list a volatile field."""


class LeaseTaken(EnvironmentFailure):
    """The lease of {key} was not free within {timeout_s} s: it is held by {actual}; expected its holder to release it.
    A site with one instance serves one run at a time: wait longer, or end the holder."""


class LeaseLost(EnvironmentFailure):
    """The lease of {key} was lost during the run: {actual}. Another run may have acted on the site, so
    this run has no grade; repeat it."""


class TaskNotGraded(EnvironmentFailure):
    """The environment at {url} grades no task {actual!r}: expected one of {expected}."""


class UnknownSite(FlywheelError):
    """There is no site {actual!r}: expected one of {expected}."""


class WeakToken(FlywheelError):
    """The admin token has {actual} characters: expected at least {expected}. Give the site a random one."""


class SitePortInUse(FlywheelError):
    """The port {port} on {host} cannot be taken: {actual}. Expected a free port; choose another one, or 0 for any free one."""


class SiteDied(FlywheelError):
    """The site {site} ended with exit status {actual} before it was ready: expected it to serve. Its last output: {stderr}"""


class SiteNotReady(FlywheelError):
    """The site {site} was not ready: {actual}. Expected one line of JSON on its standard output within {timeout_s} s."""


class SiteUnhealthy(FlywheelError):
    """The site {site} was not healthy within {timeout_s} s: {actual}; expected its command to print its address and to answer there."""


class BadSiteUrl(FlywheelError):
    """The address {actual!r} of the site {site} cannot be used: expected http:// or https:// with a host."""

    is_usage = True


class BadDialect(FlywheelError):
    """The file {file} is not a valid dialect: {actual}; expected {expected}. docs/environments.md names the fields."""

    is_usage = True


class BrowserMissing(FlywheelError):
    """Runs in a browser need {what}: {actual}; expected {expected}.
    Install it with: {way_out}. The bundled sites need no browser with --executor plan."""


class SandboxFailed(EnvironmentFailure):
    """The sandbox of the site {site} could not be {operation}: {actual}. Expected success within {timeout_s} s;
    check the sandbox, the key and the quota at Daytona."""


class DaytonaMissing(FlywheelError):
    """Daytona's own library is not installed: expected {expected}. Install flywheel with the extra `daytona`."""


class NotAdmitted(FlywheelError):
    """The environment {environment} is not admitted: {actual}. Expected an environment whose probes all passed with its current tasks.
    Run `flywheel env probe {environment}`, or for a site that runs elsewhere `flywheel env probe URL --admin-url URL`."""


class OtherSite(FlywheelError):
    """The site at {url} says that it is {actual!r}: expected {expected!r}, the name under which admission and runs are recorded.
    Check the address, use the site's own name, or give a site that says none its name as `site` of a dialect."""


class AdmittedOtherwise(FlywheelError):
    """The environment was already admitted on this probe, at position {actual}, by another actor or for another reason:
    expected one admission per probe. Probe it again to admit it anew."""
