"""What peers for NumPy and for PyTorch have in common."""
import ctypes
import dataclasses
import operator
import os
import signal
import sys
import threading
import time
import types
import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

import numpy
import numpy.typing

from . import _errors
from ._library import DONE, NO_MEAN, TIMEOUT, Options, Progress, Tensor, checked, lib

Array = numpy.typing.NDArray[numpy.float32]
Path = Union[str, "os.PathLike[str]"]
Self = TypeVar("Self", bound="BasePeer")

_CLOSED = "the peer was closed while this call waited for the round; expected one thread at a time"
_SLICE_S = 0.2  # of a wait, after which Python looks whether Ctrl-C was pressed


@dataclasses.dataclass(frozen=True)
class Report:
    """How it goes, as the peer said last (``run.report_every`` seconds); zeros and a loss of NaN before that.

    Attributes
    ----------
    round : int
        Rounds finished.
    peers : int
        Peers that take part, this one included.
    epoch, share_done : float
        Passes over all data, and share of the run that is over.
    loss : float
        Mean training loss since the report before.
    rows_per_second, bytes_out_per_second, bytes_in_per_second : float
        Since the report before.
    staleness : float
        Largest age, in rounds, of a neighbour's message that was used since.
    skipped_steps, held_back, queued_bytes : int
        Steps that were not finite, messages left out because a queue was full, and what waits for others now.
    """

    round: int
    peers: int
    epoch: float
    share_done: float
    loss: float
    rows_per_second: float
    bytes_out_per_second: float
    bytes_in_per_second: float
    staleness: float
    skipped_steps: int
    held_back: int
    queued_bytes: int


@dataclasses.dataclass(frozen=True)
class Start:
    """An array that a peer is made with: where it starts, and whether loops change it without a gradient."""

    name: str
    values: Array
    state: bool = False


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a peer takes part; the arguments of peers, as they say them."""

    name: Optional[str] = None
    settings: Sequence[str] = ()
    steps_per_epoch: int = 0
    rows: int = 0
    labels: Optional[numpy.typing.ArrayLike] = None
    own_steps: bool = False
    checkpoints: Optional[Path] = None
    resume: Optional[Path] = None
    join: Optional[str] = None
    address: Optional[str] = None
    session: int = 0
    log: Optional[Path] = None
    alike: Optional[str] = None
    alike_steps: Optional[str] = None


class _Handle:
    """The library's peer. Arrays hold it, so that their memory outlives whoever looks at it."""

    def __init__(self, pointer: int):
        self.pointer = pointer
        self.before_close: List[Callable[[], None]] = []
        weakref.finalize(self, self._close, pointer, self.before_close)

    @staticmethod
    def _close(pointer: int, before: List[Callable[[], None]]) -> None:
        for call in before:
            call()
        lib.gs_close(pointer)

    def array(self, address: int, shape: Tuple[int, ...], writeable: bool) -> Array:
        memory = (ctypes.c_float * int(numpy.prod(shape, dtype=numpy.int64))).from_address(address)
        memory.handle = self  # type: ignore[attr-defined]
        array: Array = numpy.frombuffer(memoryview(memory), dtype=numpy.float32).reshape(shape)
        array.flags.writeable = writeable
        return array


def _own_name() -> str:
    name = os.environ.get("GOSSAMER_NAME")
    if name:
        return name
    for variable in ("RANK", "SLURM_PROCID"):
        if variable in os.environ:
            return f"peer{os.environ[variable]}"
    raise _errors.BadInput("the peer has no name; give name=, or set GOSSAMER_NAME, or RANK where peers are named peer0, peer1 …")


def _no_nul(what: str, encoded: bytes) -> bytes:
    """The library would read no further than there."""
    if b"\0" in encoded:
        raise _errors.BadInput(f"found {what} {encoded!r}; expected no NUL byte in it")
    return encoded


def _text(value: Optional[Path]) -> Optional[bytes]:
    return None if value is None else _no_nul("the text", os.fsencode(value))


def text(what: str, value: object) -> bytes:
    """As the library takes it."""
    try:
        if isinstance(value, str):
            return _no_nul(what, value.encode())
    except UnicodeEncodeError:
        pass
    raise _errors.BadInput(f"found {what} {value!r}; expected a text")


def words_of(settings: Sequence[str]) -> "ctypes.Array[ctypes.c_char_p]":
    return (ctypes.c_char_p * len(settings))(*(text("the setting", word) for word in settings))


def whole(what: str, value: object, below: int = 2**32) -> int:
    """That number; BadInput where it is not a whole one, less than 0 or too large: the library would read another one."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number < below:
        raise _errors.BadInput(f"found {what} = {value!r}; expected a whole number from 0 to {below - 1}")
    return number


def checked_labels(labels: Optional[numpy.typing.ArrayLike], rows: int) -> "Optional[numpy.typing.NDArray[numpy.int32]]":
    if labels is None:
        return None
    given = numpy.asarray(labels)
    if given.shape != (rows,):
        raise _errors.BadInput(f"found labels of shape {given.shape}; expected ({rows},), one for each row")
    if given.dtype.kind not in "biuf":
        raise _errors.BadInput(f"found labels of type {given.dtype}; expected whole numbers")
    odd = given[~((given >= 0) & (given < 2**31) & (given == numpy.floor(given)))]
    if odd.size:
        raise _errors.BadInput(f"found a label {odd[0]}; expected whole numbers from 0 to {2**31 - 1}")
    return numpy.ascontiguousarray(given, dtype=numpy.int32)


def starts_of(arrays: Mapping[str, numpy.typing.ArrayLike]) -> List[Start]:
    """By name, as NumPy loops give them."""
    return [Start(key, numpy.asarray(value, dtype=numpy.float32, order="C")) for key, value in arrays.items()]


def check_starts(starts: Sequence[Start]) -> None:
    """What files cannot hold, and what nobody can train from."""
    for start in starts:
        text("an array named", start.name)
        if start.name == "__metadata__":
            raise _errors.BadInput("found an array named '__metadata__'; expected another name, as safetensors files use that one themselves")
        if start.values.size == 0:
            raise _errors.BadInput(f"{start.name} of shape {start.values.shape} has no elements; expected at least one")
        if not numpy.isfinite(start.values).all():
            raise _errors.BadInput(f"{start.name} begins with a value that is not finite; expected numbers to train from")


def report_of(progress: Progress) -> Report:
    return Report(**{field.name: getattr(progress, field.name) for field in dataclasses.fields(Report)})


class Tensors:
    """Arrays as the library takes them; holds what they point to."""

    def __init__(self, starts: Sequence[Start]):
        self.array = (Tensor * len(starts))()
        self._held: List[Any] = []
        for tensor, start in zip(self.array, starts):
            shape = (ctypes.c_size_t * start.values.ndim)(*start.values.shape)
            self._held += [shape, start.values]
            tensor.name, tensor.shape, tensor.dimensions = text("an array named", start.name), shape, start.values.ndim
            tensor.initial, tensor.state = start.values.ctypes.data, int(start.state)


class _Signals:
    """While it is on, the first Ctrl-C (or SIGTERM) asks the peer to save and leave when the round allows, and waiting for the next round raises
    KeyboardInterrupt (SystemExit) then; the second ends the program as ever. Signals that the program handles itself are left to it."""

    def __init__(self, handle: _Handle):
        self.came = 0
        self._came_at = 0.0
        self._handle, self._process = weakref.ref(handle), os.getpid()
        self._before: Dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
                if signal.getsignal(number) == usual:
                    self._before[number] = signal.signal(number, self._hear)

    def _hear(self, number: int, frame: Optional[types.FrameType]) -> None:
        handle = self._handle()
        if os.getpid() != self._process and number == signal.SIGINT:
            return  # a worker that was forked: the program goes on to the round's end, and ends it then
        self.off()
        if os.getpid() != self._process or handle is None:  # as if nothing were handled here
            return os.kill(os.getpid(), number)
        self.came, self._came_at = number, time.monotonic()
        print("gossamer: ending after this round; once more ends at once", file=sys.stderr, flush=True)
        lib.gs_interrupt(handle.pointer)

    def off(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number, before in self._before.items():
                if signal.getsignal(number) == self._hear:  # else the program has set another since
                    signal.signal(number, before)
            self._before.clear()

    def since(self) -> float:
        """Seconds since the first; 0 where none has come."""
        return time.monotonic() - self._came_at if self.came else 0.0

    def raised(self, error: _errors.Interrupted) -> BaseException:
        """What the program is told in that one's place."""
        if self.came == signal.SIGINT:
            return KeyboardInterrupt(str(error))
        return SystemExit(128 + self.came) if self.came else error


class BasePeer:
    """A peer over arrays; what these are for is its subclasses' affair. It belongs to one thread at a time, but for :meth:`interrupt`,
    :meth:`close`, :attr:`report` and :attr:`members`."""

    def __init__(self, job: Path, starts: Sequence[Start], given: Settings, kept: Sequence[Start] = ()):
        check_starts(starts)
        rows = whole("rows", given.rows)
        tensors, own, labels = Tensors(starts), Tensors(kept), checked_labels(given.labels, rows)
        options = Options(ctypes.sizeof(Options), whole("session", given.session, 2**64), whole("steps_per_epoch", given.steps_per_epoch), rows, None if labels is None else labels.ctypes.data,
                          _text(given.checkpoints), _text(given.resume), _text(given.join), _text(given.address), _text(given.log),
                          int(given.own_steps), own.array, len(kept), _text(given.alike), _text(given.alike_steps))
        words = words_of(given.settings)
        pointer = ctypes.c_void_p()
        self.name = given.name if given.name is not None else _own_name()
        checked(lib.gs_open(_text(job), words, len(words), text("the name", self.name), tensors.array, len(starts), ctypes.byref(options),
                            ctypes.byref(pointer)))
        assert pointer.value is not None
        self._handle = _Handle(pointer.value)
        self._known_members: List[str] = []
        self._on_change: List[Callable[[List[str]], None]] = []
        self._calls, self._closing = threading.RLock(), threading.Event()
        self._signals = _Signals(self._handle)
        self._handle.before_close.append(self._signals.off)  # of a peer that nobody closes

    def _arrays(self, address: Callable[[int, int], int], starts: Sequence[Start], writeable: bool) -> List[Array]:
        pointer = self._handle.pointer
        return [self._handle.array(address(pointer, number), start.values.shape, writeable) for number, start in enumerate(starts)]

    def _in_slices(self, ask: Callable[[int, float], int], timeout: Optional[float]) -> int:
        """What the library gives, asked a few times a second, so that Ctrl-C is heard."""
        until = None if timeout is None else time.monotonic() + timeout
        was_closed = self._closing.is_set()
        while True:
            left = _SLICE_S if until is None else min(_SLICE_S, max(until - time.monotonic(), 0.0))
            try:
                with self._calls:
                    status = checked(ask(self._handle.pointer, left))
            except _errors.Interrupted as error:
                self._signals.off()
                if self._closing.is_set() and not was_closed:
                    raise _errors.Misuse(_CLOSED) from error
                raise self._signals.raised(error) from None
            except _errors.GossamerError as error:
                self._signals.off()
                if self._closing.is_set() and not was_closed:
                    raise _errors.Misuse(_CLOSED) from error
                raise
            if status == DONE:
                self._signals.off()
            if status != TIMEOUT:
                return status
            if self._closing.is_set():
                raise _errors.Misuse(_CLOSED)
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"the round's parameters do not stand after {timeout:g} seconds")

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait until the parameters of the next round stand; False: the run is over, as the job says.

        Raises
        ------
        TimeoutError
            Not within ``timeout`` seconds.
        PeerLost, Diverged, Interrupted, BadInput, Failed
            The run has ended for another reason.
        """
        return self._in_slices(lib.gs_wait, timeout) != DONE

    def _wait_mean(self) -> bool:
        return self._in_slices(lib.gs_wait_mean, None) != NO_MEAN

    def _post(self, loss: float, rows: int) -> None:
        value, count = float(loss), whole("rows", rows)
        with self._calls:
            checked(lib.gs_post(self._handle.pointer, value, count))

    @property
    def step_number(self) -> int:
        """Of this peer's batches, counted from the run's beginning, the one that is computed, or comes next."""
        number: int = lib.gs_step(self._handle.pointer)
        return number

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which the peers together go through all data once, as they are when this one begins."""
        steps: int = lib.gs_steps_per_epoch(self._handle.pointer)
        return steps

    def rows_of(self, step: int) -> "numpy.typing.NDArray[numpy.uint32]":
        """Rows of such a batch by the job's split, where the peer was told how many rows there are.

        Those of batches to come are right as long as members do not change, and to the end of the pass over this peer's rows where they do.
        """
        step, count = whole("step", step, 2**64), ctypes.c_size_t()
        checked(lib.gs_batch(self._handle.pointer, step, None, 0, ctypes.byref(count)))
        rows = numpy.empty(count.value, dtype=numpy.uint32)
        checked(lib.gs_batch(self._handle.pointer, step, rows.ctypes.data, rows.size, ctypes.byref(count)))
        return rows

    def remember(self, data: bytes) -> None:
        """What this peer's checkpoints hold beside the rest from now on, and nobody else has; before the round's gradients are handed over."""
        checked(lib.gs_remember(self._handle.pointer, data, len(data)))

    @property
    def remembered(self) -> bytes:
        """What was given to :meth:`remember` last, also by the peer whose checkpoint this one goes on from; empty where nothing was."""
        size = ctypes.c_size_t()
        address = lib.gs_remembered(self._handle.pointer, ctypes.byref(size))
        return ctypes.string_at(address, size.value) if address else b""

    @property
    def report(self) -> Report:
        """How it goes."""
        progress = Progress()
        checked(lib.gs_report(self._handle.pointer, ctypes.byref(progress), ctypes.sizeof(progress)))
        return report_of(progress)

    @property
    def members(self) -> List[str]:
        """Names of those that train together, this peer among them."""
        names: bytes = lib.gs_members(self._handle.pointer)
        return names.decode().splitlines()

    def on_change(self, call: Callable[[List[str]], None]) -> None:
        """Have ``call(members)`` called, from the loop's own thread, whenever others train together than before."""
        self._on_change.append(call)

    def _look_at_members(self) -> None:
        """As a round begins."""
        members = self.members
        if members != self._known_members:
            before, self._known_members = self._known_members, members
            for call in self._on_change if before else []:
                call(members)

    def interrupt(self) -> None:
        """End the run soon; from any thread. Waiting for the next round raises Interrupted then."""
        checked(lib.gs_interrupt(self._handle.pointer))

    def close(self) -> None:
        """End the run where it still goes on. Arrays keep their values. Where another thread waits for the round, its call raises Misuse."""
        self._signals.off()
        self._closing.set()
        with self._calls:  # at most a slice of another's wait
            lib.gs_end(self._handle.pointer)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[types.TracebackType]) -> None:
        self.close()
