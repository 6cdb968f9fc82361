"""Errors of commands and REST. The docstring of an error is its message."""

from __future__ import annotations

from eventlog.errors import BlobErased, FlywheelError


class BadSetting(FlywheelError):
    """The environment variable {name} is {actual!r}: {expected}."""


class Unknown(FlywheelError):
    """No {what} is called {actual!r}. {way_out}"""


class NoChampion(Unknown):
    """There is no champion yet at position {upto}. `flywheel run` points the first one, `flywheel champion point` any."""


class NothingServed(FlywheelError):
    """Nothing answers at {expected} ({actual}): start the server with `flywheel serve`, or name another address with --url
    or --port."""


class NothingToSign(FlywheelError):
    """The log is empty: expected at least one event to sign; append something first."""


class BeyondHead(FlywheelError):
    """Position {expected} was asked for, but the log ends at {actual}. Choose a position up to that."""


class NoTrustedKey(FlywheelError):
    """There is no public key at {expected} to check the signature with. Name one with --public-key, or sign once with
    `flywheel log sign`."""


class BadKeyFile(FlywheelError):
    """The file {file} holds no Ed25519 key: {actual}; expected {expected} in PEM."""


class NotSetUp(FlywheelError):
    """There is no database under {actual} yet; run `flywheel db up`, or set FLYWHEEL_DATABASE_URL."""


class ApiPortInUse(FlywheelError):
    """The port {port} on {host} cannot be used: it is {actual}; expected a free one. Stop the process that listens there, or choose
    another port with --port."""


class BadArtifactName(FlywheelError):
    """{actual!r} is not the name of an artifact: expected `base@POSITION` or `ck-DIGEST@POSITION`, as `flywheel champion history` shows them."""


class BadPosition(FlywheelError):
    """{actual!r} is neither a position nor a time: expected a whole number, or a time such as 2026-01-31T12:00:00Z."""


class TooManyRows(FlywheelError):
    """The dataset {dataset} has {actual} rows, and only one of at most {expected} is made again to show a few: read it with
    `flywheel dataset export` or GET /v1/datasets/…/rows."""


class McpMissing(FlywheelError):
    """The tools for agents need a library that is not installed: expected {expected}. Install it: pip install 'flywheel[mcp]'."""


class AlphaCapped(FlywheelError):
    """The benchmark {benchmark} asks for alpha {actual}, but the benchmarks of the project have {total} already: expected at most
    {expected} in all. Raise FLYWHEEL_ALPHA_CAP, or freeze it with a smaller --alpha."""


class VerdictDiffers(FlywheelError):
    """The recomputed verdict of {evaluation} differs from the recorded one: computed {actual}, recorded {expected}.
    Run `flywheel log verify`; if the log is valid, the gate's code has changed since."""


class VerdictsDiffer(FlywheelError):
    """{count} of {total} recomputed verdicts differ from the recorded ones: {actual}. `flywheel gate verify EVALUATION` shows
    both. Run `flywheel log verify`; if the log is valid, the gate's code has changed since."""


class BadPicture(FlywheelError):
    """The picture {actual!r} cannot be drawn: expected a file whose name ends in {expected}, in a folder that exists."""


class NothingToPlot(FlywheelError):
    """There is nothing to draw: {actual}; expected {expected}."""


class NotEmbedded(FlywheelError):
    """FLYWHEEL_DATABASE_URL is set, and only the embedded database can be stopped by this command. Stop that server with its
    own tools, or unset the variable."""


class NoModel(FlywheelError):
    """No model is configured: {actual}; expected {expected}."""


class ControllerBusy(FlywheelError):
    """Another `flywheel run`, `flywheel rollout sweep`, `flywheel rollout biased`, `flywheel benchmark`, `flywheel delegate` or `flywheel gate run` is
    working on {site} in this project, and only one may. Wait for it, or choose another project with FLYWHEEL_PROJECT."""


class BadHost(FlywheelError):
    """Cannot listen on the host {actual!r}: {why}. Expected an address of this machine, such as 127.0.0.1."""


class FactMissing(FlywheelError):
    """The log lacks an event that the controller appends first: {actual}. Run `flywheel run` to its end once."""


class TooSmall(FlywheelError):
    """The benchmark {benchmark} is too small for a verdict: {actual}. Freeze a larger one with `flywheel benchmark refresh {benchmark}
    --sealed N`."""


class OtherBenchmark(FlywheelError):
    """The benchmark {actual} belongs to the environment {environment}: expected one of {expected}. `flywheel benchmark list` names them."""


class OtherTasks(FlywheelError):
    """The benchmark {benchmark} judges checkpoints on other tasks than requested: {actual}; expected {expected}. Name the latter with
    --task, or choose another project with FLYWHEEL_PROJECT."""


class NotChampion(FlywheelError):
    """{actual} is not the champion; {expected} is. A challenger can only be judged against the champion.
    Leave out --champion to use the current one."""


class NoJudge(FlywheelError):
    """No judge model is configured: {actual}; expected {expected}."""


class RunUnreadable(FlywheelError):
    """The run {actual} cannot be shown: its stream lacks its start or its end. See `flywheel runs show {actual}`."""


class DatasetErased(BlobErased):
    """The dataset {expected} is erased: its rows up to position {upto} need the blob {actual}, whose subject was erased. Freeze another
    dataset with `flywheel dataset build`; it leaves out the erased runs."""


class DatasetWithdrawn(FlywheelError):
    """The dataset {actual} contains runs that were withdrawn after it was frozen at position {upto}. Freeze another dataset with
    `flywheel dataset build`; it leaves out the withdrawn runs."""


class EmptyDataset(FlywheelError):
    """The {kind} query selects no rows up to position {upto}: {actual}. No dataset was frozen. docs/datasets.md explains each reason
    why runs are refused, and what to do."""


class UnknownSubject(FlywheelError):
    """Nothing was erased: no run or blob in this project belongs to the subject {actual!r}; expected the pseudonym given when its
    runs were started. Check the spelling, or add --yes to erase this name anyway."""


class BadCertificate(FlywheelError):
    """The certificate {certificate} with the key {key} cannot be used: {actual}; expected files in PEM that belong together, for
    --tls-certificate and --tls-key."""


class NoReason(FlywheelError):
    """No reason was given: expected a few words on why {what}. They are recorded in the log."""


class AlreadyWithdrawn(FlywheelError):
    """Of these runs, {actual} already withdrawn: {runs}, since position {position}. Leave them out."""


class ForgedEvents(FlywheelError):
    """The log holds {count} forged events, which their actor may not have written, at position {actual} (the first is {type} by
    {actor}): what is decided would rest on them. See them with `flywheel log inspect`; `flywheel log disown --all --reason WHY` leaves
    them out of every projection, and deletes nothing."""


class NotForged(FlywheelError):
    """Nothing was disowned: {actual}; expected positions that `flywheel log inspect` lists. To learn nothing from runs of your own,
    use `flywheel runs withdraw`."""


class NotReplayable(FlywheelError):
    """The run {run} cannot be replayed: {actual}; expected a run of this project's executors that was played to its end.
    `flywheel runs list --status completed` names some."""


class BadDefinition(FlywheelError):
    """The file {file} is not a valid {what}: {actual}; expected {expected}. `flywheel what-if --print-{what}` prints the one in force."""


class SweepExists(FlywheelError):
    """A sweep called {actual} already exists: expected a new name. `flywheel rollout status {actual}` shows its progress."""


class WrongWay(FlywheelError):
    """The executor {actual} cannot play on this site: expected {expected}. Name another with --executor, or another site."""


class OtherExecutor(FlywheelError):
    """{what} was planned for {expected}, but this is {actual}. Runs that are compared need the same executor and model. {way_out}"""


class NotExtended(FlywheelError):
    """No siblings were added to {sweep}: another process has planned {actual} in the meantime.
    Run the command again; it resumes from the log."""


class NoSite(FlywheelError):
    """No site is given: {actual}; expected {expected}."""

    is_usage = True


class NotRegistered(FlywheelError):
    """The environment {name} was not registered: {actual}; expected {expected}. Nothing was recorded."""

    is_usage = True


class PlayedInVain(FlywheelError):
    """The worker stopped because its next runs on {site} would fail as well: {actual}. Fix the site or the model and start the
    worker again; the runs it had not started are still in the queue."""


class NothingGraded(FlywheelError):
    """No run of {sweep} could be graded, so there is nothing to learn from: {actual}. Fix the site or the model, then run the command
    again: it plays another round."""


class SessionNotKept(FlywheelError):
    """The executor {executor} keeps no browser profile, so it cannot play the session {actual!r}. Choose the executor plan or browser,
    or leave out the session."""


class NotAnAdapter(FlywheelError):
    """{actual} is a base model made by a warm-up: expected a checkpoint with an adapter. Name a base model with --base."""


class NotConverted(FlywheelError):
    """The weights {weights} were not converted to GGUF because of {error}: {actual}"""


class BadSkillFile(FlywheelError):
    """The file {file} is no skill: it has {actual}; expected {expected}. Nothing was brought in."""


class NoFiles(FlywheelError):
    """The loop {loop} has no files to write: {actual}; expected an ended one whose workers wrote some."""


class BadLoopBudget(FlywheelError):
    """The budget {actual!r} cannot be used: expected {expected}."""


class NotPredicted(FlywheelError):
    """The run was not planned: {where} is {actual}, expected {expected}."""


class HeaderUnset(FlywheelError):
    """The header {header} of the run's pages has no value: {variable} is not set where the worker runs. Set it, start the worker
    again, and resume the run."""


class NotResumable(FlywheelError):
    """The run {run} cannot be resumed: {actual}. {way_out}."""


class NoRemote(FlywheelError):
    """There is no other Flywheel to play the runs: {actual} is not set, expected the address of its `flywheel serve` and a token of
    its role operate. Set FLYWHEEL_REMOTE_URL and FLYWHEEL_REMOTE_TOKEN."""


class InstanceNotLent(FlywheelError):
    """The run {run} plays on an instance that its caller opened, and that instance is not kept any more: expected it until the run
    has ended. Ask for a new run with an open instance."""


class PredictionDiffers(FlywheelError):
    """The run was not planned: {what} {key!r} was used for another request ({actual}). Take a new one, or send the same request again."""


class OthersRun(FlywheelError):
    """The run {run!r} was opened with another token, and nothing was written: expected the token that opened it{or_role}. Use that
    token, or a run id of your own."""


class RunSealed(FlywheelError):
    """What the run {run} did is sealed while {benchmark} can judge: its steps would tell its result. It can be replayed once the
    benchmark has a successor (`flywheel benchmark refresh {benchmark}`)."""


class PictureSealed(FlywheelError):
    """The verdict of {evaluation} cannot be drawn while {benchmark} can judge: all that a picture shows is sealed. Freeze its
    successor first (`flywheel benchmark refresh {benchmark}`), or pay with --spend."""
