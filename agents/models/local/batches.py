"""Continuous batching: one thread computes for the requests of many threads, one token per row and step.

A request joins at the next step and leaves when it ends; nothing waits for a batch to fill. Rows of different adapters
are in different lanes, and each step processes every lane. Where the engine may use several threads, the rows of a
step are sampled side by side; which token a row gets does not depend on that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from ..errors import DrawingFailed, LogitsBroken, ModelClosed, ModelFailure
from ..model import Finish
from .cells import Beginnings, longest_shared
from .engine import AdapterFile, Network, RowCells
from .samples import Ask, SampledTokens
from .sampling import draw_token, uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_ROWS: Final = 32
"""Most rows of one adapter in a batch. Further requests wait."""


@dataclass(slots=True)
class _Row:
    ask: Ask
    future: Future[SampledTokens]
    ids: list[int]
    logprobs: list[float] = field(default_factory=list)
    finish: Finish | None = None

    def take(self, logits: NDArray[Any]) -> None:
        """Sample the next token, and set `finish` if it is the last one."""
        ask, sampling = self.ask, self.ask.sampling
        number = uniform(sampling.seed or 0, ask.sample, len(self.ids))
        token, logprob = draw_token(logits, sampling.temperature_micro, sampling.top_p_micro, number)
        self.ids.append(token)
        self.logprobs.append(logprob)
        if token in ask.ends or (ask.is_over is not None and ask.is_over(self.ids[len(ask.prompt) :])):
            self.finish = "stop"
        elif len(self.logprobs) == sampling.max_tokens:
            self.finish = "length"

    def sampled_tokens(self) -> SampledTokens:
        """Tokens sampled so far."""
        return SampledTokens(tuple(self.ids[len(self.ask.prompt) :]), tuple(self.logprobs), self.finish or "other")


@dataclass(slots=True)
class _Lane:
    """Rows of one adapter. The index of a row is also its index in the cells."""

    cells: RowCells
    rows: list[_Row] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Putting:
    adapter: AdapterFile
    future: Future[None]


@dataclass(frozen=True, slots=True)
class _Removal:
    digest: str


class Batches:
    """The computing thread. `load` is called in that thread at the first request, and makes the network.

    Up to `threads` threads sample the rows of a step, in float64: at 152,000 words of a vocabulary a token takes
    milliseconds, almost all of them outside the interpreter.
    """

    def __init__(self, name: str, load: Callable[[], Network], threads: int = 1) -> None:
        self._name = name
        self._samplers = ThreadPoolExecutor(threads, f"samples from {name}") if threads > 1 else None
        self._load = load
        self._network: Network | None = None
        self._come: SimpleQueue[_Row | _Putting | _Removal | None] = SimpleQueue()
        self._leaving: set[str] = set()
        self._waiting: deque[_Row] = deque()
        self._lanes: dict[str, _Lane] = {}
        self._kept = Beginnings()
        self._thread: Thread | None = None
        self._is_closed = False
        self._lock = Lock()

    def draw(self, ask: Ask) -> Future[SampledTokens]:
        """Queue a request. The future gets its tokens or a ModelFailure. Raises ModelClosed."""
        row = _Row(ask, Future(), list(ask.prompt))
        self._send(row)
        return row.future

    def attach(self, adapter: AdapterFile) -> None:
        """Load an adapter onto the base, and wait until it is loaded.

        Raises AdapterUnfit, BaseUnfit, DrawingFailed, ModelClosed.
        """
        putting = _Putting(adapter, Future())
        self._send(putting)
        putting.future.result()

    def detach(self, digest: str) -> None:
        """Remove an adapter as soon as no request needs it. At least one other must be attached. Raises ModelClosed."""
        self._send(_Removal(digest))

    def close(self) -> None:
        """End the thread and wait for it. Pending requests fail with ModelClosed."""
        with self._lock:
            thread, self._is_closed = self._thread, True
            self._come.put(None)
        if thread is not None:
            thread.join()
        if self._samplers is not None:
            self._samplers.shutdown()

    def _send(self, work: _Row | _Putting | _Removal) -> None:
        with self._lock:
            if self._is_closed:
                raise ModelClosed(model=self._name)
            self._come.put(work)
            if self._thread is None:
                self._thread = Thread(target=self._run, name=f"draws from {self._name}", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        is_open = True
        while is_open:
            try:
                is_open = self._turn()
            except Exception as problem:  # noqa: BLE001 waiting callers get the error, the next request is served
                self._fail(self._translate_error(problem))
        self._fail(ModelClosed(model=self._name))
        if self._network is not None:
            self._network.close()

    def _turn(self) -> bool:
        """Take queued work, and sample a token for every row. False once closed."""
        is_busy = bool(self._waiting) or any(lane.rows for lane in self._lanes.values())
        while not is_busy or not self._come.empty():
            work = self._come.get()
            if work is None:
                return False
            if isinstance(work, _Putting):
                self._put(work)
            elif isinstance(work, _Removal):
                self._leaving.add(work.digest)
                is_busy = True  # so that this turn removes it
            else:
                self._waiting.append(work)
                is_busy = True
        for _ in range(len(self._waiting)):
            row = self._waiting.popleft()
            try:
                self._begin(row)
            except Exception:
                self._waiting.append(row)  # so that it is told
                raise
        for weights, lane in list(self._lanes.items()):
            self._step(weights, lane)
        self._remove()
        return True

    def _remove(self) -> None:
        """Remove the adapters that are to leave and that no request needs any more."""
        needed = {row.ask.weights for row in self._waiting} | {name for name, lane in self._lanes.items() if lane.rows}
        for digest in sorted(self._leaving - needed):
            self._leaving.discard(digest)
            self._drop_lane(digest)
            self._kept.forget(digest)
            self._load_network().detach(digest)

    def _drop_lane(self, weights: str) -> None:
        lane = self._lanes.pop(weights, None)
        if lane is not None:
            lane.cells.close()

    def _load_network(self) -> Network:
        if self._network is None:
            self._network = self._load()
            self._kept = Beginnings(self._network.most_kept)
        return self._network

    def _put(self, putting: _Putting) -> None:
        self._leaving.discard(putting.adapter.digest)
        try:
            self._load_network().attach(putting.adapter)
        except Exception as problem:  # noqa: BLE001 the waiting caller gets the error
            putting.future.set_exception(self._translate_error(problem))
        else:
            putting.future.set_result(None)

    def _begin(self, row: _Row) -> None:
        """Read the part of a prompt that is not cached, and sample the first token; or let it wait for room."""
        weights = row.ask.weights
        if weights not in self._lanes:
            for name in [name for name, lane in self._lanes.items() if not lane.rows]:
                self._drop_lane(name)
            network = self._load_network()
            self._lanes[weights] = _Lane(network.new_cells(weights, self._kept))
        lane = self._lanes[weights]
        place = len(lane.rows)
        if place >= MOST_ROWS or not lane.cells.reserve(place + 1, len(row.ids) + row.ask.sampling.max_tokens):
            self._waiting.append(row)
            return
        lane.rows.append(row)
        first = self._fill(weights, lane, place)
        logits = self._load_network().read(weights, lane.cells, place, row.ids, first)
        self._take(weights, [row], [logits])

    def _fill(self, weights: str, lane: _Lane, place: int) -> int:
        """Fill a row with the longest beginning that a kept or running row has too; siblings' prompt is read once."""
        ids = lane.rows[place].ids
        other, first = longest_shared([each.ids[:-1] for each in lane.rows[:place]], ids)
        if (found := self._kept.longest(weights, ids, beyond=first)) is not None:
            beginning, first = found
            lane.cells.put(place, beginning, first)
        elif first:
            lane.cells.share(other, place, first)
        return first

    def _step(self, weights: str, lane: _Lane) -> None:
        if not lane.rows:
            return
        tokens = [row.ids[-1] for row in lane.rows]
        places = [len(row.ids) - 1 for row in lane.rows]
        logits = self._load_network().step(weights, lane.cells, tokens, places)
        self._take(weights, lane.rows, logits)

    def _take(self, weights: str, rows: Sequence[_Row], logits: Iterable[NDArray[Any]]) -> None:
        """Sample a token for each of these rows, and complete the futures of rows that have ended.

        Invalid logits end all rows of their weights, and no others.
        """
        lane = self._lanes[weights]
        try:
            self._sample(rows, list(logits))
            for row in rows:
                if row.finish is not None:
                    row.future.set_result(row.sampled_tokens())
        except LogitsBroken as problem:
            self._drop_lane(weights)
            _tell(lane.rows, problem)
        else:
            self._let_go(weights, lane)

    def _sample(self, rows: Sequence[_Row], logits: Sequence[NDArray[Any]]) -> None:
        """Sample a token for each row, side by side if there are several. Raises LogitsBroken."""
        if self._samplers is None or len(rows) == 1:
            for row, own in zip(rows, logits, strict=True):
                row.take(own)
            return
        for _ in self._samplers.map(_Row.take, rows, logits):
            pass

    def _let_go(self, weights: str, lane: _Lane) -> None:
        """Cache the attention state of rows that have ended, and close the gaps they leave."""
        for place in reversed(range(len(lane.rows))):
            row = lane.rows[place]
            if row.finish is None:
                continue
            self._kept.keep(weights, lane.cells.copy_row(place, row.ids[:-1]))
            last = lane.rows.pop()
            if last is not row:
                lane.rows[place] = last
                lane.cells.move(len(lane.rows), place, len(last.ids) - 1)

    def _translate_error(self, problem: Exception) -> ModelFailure:
        """The error as a ModelFailure. The error of a library becomes its cause."""
        if isinstance(problem, ModelFailure):
            return problem
        said = f"{type(problem).__name__}: {problem}".partition("\n")[0]
        failure = DrawingFailed(model=self._name, actual=said)
        failure.__cause__ = problem
        return failure

    def _fail(self, problem: ModelFailure) -> None:
        """Fail all waiting and running rows, and clear the lanes."""
        rows = [*self._waiting, *(row for lane in self._lanes.values() for row in lane.rows)]
        self._waiting.clear()
        for name in list(self._lanes):
            self._drop_lane(name)
        _tell(rows, problem)


def _tell(rows: Iterable[_Row], problem: ModelFailure) -> None:
    """Set an error on the future of every row that has no result yet."""
    for row in rows:
        if not row.future.done():
            row.future.set_exception(problem)
