"""What the outside can be told when something cannot be done."""

from __future__ import annotations

from eventlog.errors import BlobErased, FlywheelError


class BadSetting(FlywheelError):
    """The environment variable {name} is {actual!r}: {expected}."""


class Unknown(FlywheelError):
    """No {what} is called {actual!r}. {way_out}"""


class NothingToSign(FlywheelError):
    """The log is empty: expected at least one event to sign; append something first."""


class BeyondHead(FlywheelError):
    """Position {expected} was asked for, and the log ends at {actual}: expected positions up to that."""


class NoTrustedKey(FlywheelError):
    """There is no public key at {expected}: expected one to check the signature with. Name one with --public-key, or sign once with
    `flywheel log sign`."""


class BadKeyFile(FlywheelError):
    """The file {file} holds no Ed25519 key: {actual}; expected {expected} in PEM."""


class NotSetUp(FlywheelError):
    """There is no database under {actual} yet; run `flywheel db up`, or set FLYWHEEL_DATABASE_URL."""


class ApiPortInUse(FlywheelError):
    """The port {port} on {host} cannot be used: it is {actual}; expected a free one. Stop what listens there, or choose another with
    --port."""


class BadArtifactName(FlywheelError):
    """{actual!r} names no artifact: expected `base@POSITION` or `ck-DIGEST@POSITION`, as `flywheel champion history` shows them."""


class BadPosition(FlywheelError):
    """{actual!r} is neither a position nor a time: expected a whole number, or a time such as 2026-01-31T12:00:00Z."""


class VerdictDiffers(FlywheelError):
    """The verdict of {evaluation} recomputes to other bytes: {actual}, recorded {expected}.
    Run `flywheel log verify`; if the log is sound, the gate's code has changed since."""


class VerdictsDiffer(FlywheelError):
    """Of {total} verdicts, {count} recompute to other bytes: {actual}; expected all to be equal. `flywheel gate verify EVALUATION` shows
    both. Run `flywheel log verify`; if the log is sound, the gate's code has changed since."""


class BadPicture(FlywheelError):
    """The picture {actual!r} cannot be drawn: expected a file whose name ends in {expected}, in a folder that exists."""


class NotEmbedded(FlywheelError):
    """FLYWHEEL_DATABASE_URL is set, so the database is not ours to stop: expected the embedded one; stop that server by its own
    means, or unset the variable."""


class NoModel(FlywheelError):
    """There is no model to ask: {actual}; expected {expected}."""


class ControllerBusy(FlywheelError):
    """Another `flywheel run`, `flywheel rollout sweep`, `flywheel rollout biased`, `flywheel benchmark` or `flywheel gate run` works
    on {site} in this project: expected to be the only one. Wait for it, or choose another project with FLYWHEEL_PROJECT."""


class BadHost(FlywheelError):
    """The host {actual!r} cannot be listened on: {why}. Expected an address of this machine, such as 127.0.0.1."""


class FactMissing(FlywheelError):
    """The log lacks a fact that the controller appends first: {actual}. Run `flywheel run` to its end once."""


class TooSmall(FlywheelError):
    """The benchmark {benchmark} can only void: {actual}. Freeze a larger one with `flywheel benchmark refresh {benchmark}
    --sealed N`."""


class OtherBenchmark(FlywheelError):
    """The benchmark {actual} is of the environment {environment}: expected one of {expected}. `flywheel benchmark list` names them."""


class OtherTasks(FlywheelError):
    """The benchmark {benchmark} judges checkpoints by other tasks: {actual} would be played; expected {expected}. Name those with --task, or
    choose another project with FLYWHEEL_PROJECT."""


class NotChampion(FlywheelError):
    """{actual} is not champion, {expected} is: expected the champion's own name, for a challenger replaces nobody else.
    Leave --champion out to judge against whoever is champion."""


class NoJudge(FlywheelError):
    """No judge is set up: {actual}; expected {expected}."""


class RunUnreadable(FlywheelError):
    """The run {actual} cannot be shown: its stream lacks its start or its end; expected both. See `flywheel runs show {actual}`."""


class DatasetErased(BlobErased):
    """The dataset {expected} is erased: its rows up to position {upto} need the blob {actual}, whose subject was erased, so they cannot
    be made again. Freeze another with `flywheel dataset build`: it leaves the erased runs out."""


class DatasetWithdrawn(FlywheelError):
    """The dataset {actual} holds runs that were withdrawn after position {upto}, up to which it was frozen: expected rows of runs that
    still count. Freeze another with `flywheel dataset build`: it leaves them out."""


class EmptyDataset(FlywheelError):
    """The {kind} query selects no rows up to position {upto}: {actual}. Expected at least one row, and nothing was registered; what each
    reason to refuse a run means, and the way out of it, is in docs/datasets.md."""


class UnknownSubject(FlywheelError):
    """Nothing was erased: no run and no blob in this project is of the subject {actual!r}; expected the pseudonym that its runs were
    started with. Check its spelling, or say --yes so that it is destroyed for good all the same."""


class NoReason(FlywheelError):
    """No reason was given: expected a few words on why {what}; they are recorded with it."""


class AlreadyWithdrawn(FlywheelError):
    """Of these runs, {actual} already withdrawn: {runs}, since position {position}. Expected runs that still count; leave them out."""


class NotReplayable(FlywheelError):
    """The run {run} cannot be replayed: {actual}; expected a run of the plan executor that was played to its end.
    `flywheel runs list --status completed` names some."""


class BadDefinition(FlywheelError):
    """The file {file} is no {what}: {actual}; expected {expected}. `flywheel what-if --print-{what}` prints the one in force."""


class SweepExists(FlywheelError):
    """A sweep called {actual} was planned before: expected a new name. `flywheel rollout status {actual}` shows how it went."""


class WrongWay(FlywheelError):
    """The executor {actual} cannot play on this site: expected {expected}. Name another with --executor, or another site."""


class OtherExecutor(FlywheelError):
    """{what} was planned for {expected}, and this is {actual}: expected the same one, for its runs are compared. {way_out}"""


class NotExtended(FlywheelError):
    """No siblings were added to {sweep}: {actual} was planned by somebody else meanwhile; expected to be the only one who adds to it.
    Run the command again: it goes on from where the log stands."""


class NoSite(FlywheelError):
    """There is no site to go to: {actual}; expected {expected}."""

    is_usage = True


class PlayedInVain(FlywheelError):
    """Runs on {site} go missing: {actual}. Expected a site and a model that runs can be played with. Put it right and start the
    worker again: what it had not begun waits in the queue."""


class SessionNotKept(FlywheelError):
    """The session {actual!r} would be played by the executor {executor}, which takes no browser profile and leaves none: expected the
    executor plan or browser for a session. Choose one of them, or leave the session out."""


class OtherKind(FlywheelError):
    """The dataset {dataset} is of the kind {actual}: {algorithm} trains on {expected}. Build one with `flywheel dataset build {expected}`."""


class NoBase(FlywheelError):
    """There is no base model to train on: {actual}; expected a folder with its files, or the digest of one that a warm-up made. Name it with
    --base."""


class StartDiffers(FlywheelError):
    """The small model that {checkpoint} was warmed up from comes out of the log with the digest {actual}: expected {expected}. Other
    versions of the libraries made that one, or another CPU type, or somebody by hand. Give its folder with --base."""


class NotABase(FlywheelError):
    """The checkpoint {actual} was made by {algorithm}: expected a base model, which a warm-up makes. Go on from a checkpoint with --from."""


class NotAnAdapter(FlywheelError):
    """{actual} is a base model, made by a warm-up: expected a checkpoint with an adapter. Name a base model with --base."""


class BadConfig(FlywheelError):
    """The configuration of {algorithm} is wrong at {where}: {actual}; expected what docs/training.md says."""


class TrainingEnded(FlywheelError):
    """{training} ended without a checkpoint, by {error}: {actual}"""


class TrainedTwice(FlywheelError):
    """{training} was trained by somebody else meanwhile: {actual} stands at position {position} with other content, so what came here
    is not recorded. Expected to be the only one who trains it. Run the command again: it goes on from where the log stands."""


class NotPublished(FlywheelError):
    """Nothing was published to {place}: {actual}; expected {expected}."""
