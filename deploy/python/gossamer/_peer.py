"""A peer for loops over NumPy arrays."""
import ctypes
import dataclasses
import os
import time
import types
import weakref
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple, Type, Union

import numpy
import numpy.typing

from . import _errors
from ._library import DONE, TIMEOUT, Options, Progress, Tensor, checked, lib

Array = numpy.typing.NDArray[numpy.float32]
Path = Union[str, "os.PathLike[str]"]

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


class _Handle:
    """The library's peer. Arrays hold it, so that their memory outlives whoever looks at it."""

    def __init__(self, pointer: int):
        self.pointer = pointer
        weakref.finalize(self, lib.gs_close, pointer)

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


def _text(value: Optional[Path]) -> Optional[bytes]:
    return None if value is None else os.fsencode(value)


class Peer:
    """One of a job's peers, whose gradients a loop of one's own computes.

    Parameters
    ----------
    job : path
        The job file; its ``[model]`` and ``[data]`` are not used.
    parameters : mapping of str to array
        The model's arrays and where they start, the same on every peer, in the order in which the model uses them. Copied.
    name : str, optional
        Of the peer in the job; by default ``GOSSAMER_NAME``, or ``peer0``, ``peer1`` … by ``RANK`` or ``SLURM_PROCID``.
    settings : sequence of str, optional
        As of ``--set``: ``"exchange.codec=dense"``.
    steps_per_epoch : int, optional
        Steps in which the peers together go through all data once.
    checkpoints, resume : path, optional
        Folder where checkpoints go; a run's folder from whose checkpoints this one goes on.
    join, address : str, optional
        ``tcp://host:port`` of a member of a run under way, in which this peer takes part; where others reach this one.
    session : int, optional
        Keeps runs of the same job on the same ports apart; the same for all peers.
    log : path, optional
        File that lines of the log are added to; ``"-"``: standard error.

    Attributes
    ----------
    parameters : dict of str to array
        Those of the round, read-only; the trained ones once the run is over.
    gradients : dict of str to array
        To be written between :meth:`wait` and :meth:`post`. Both stay where they are from the first round to the last.

    Raises
    ------
    BadInput
        The job, an array or a combination cannot be used.
    """

    def __init__(self, job: Path, parameters: Mapping[str, numpy.typing.ArrayLike], *, name: Optional[str] = None,
                 settings: Sequence[str] = (), steps_per_epoch: int = 1, checkpoints: Optional[Path] = None,
                 resume: Optional[Path] = None, join: Optional[str] = None, address: Optional[str] = None, session: int = 0,
                 log: Optional[Path] = None):
        starts = {key: numpy.asarray(value, dtype=numpy.float32, order="C") for key, value in parameters.items()}
        tensors = (Tensor * len(starts))()
        shapes = []  # what the tensors point to
        for tensor, (key, start) in zip(tensors, starts.items()):
            shapes.append((ctypes.c_size_t * start.ndim)(*start.shape))
            tensor.name, tensor.shape, tensor.dimensions, tensor.initial = key.encode(), shapes[-1], start.ndim, start.ctypes.data
        options = Options(ctypes.sizeof(Options), session, steps_per_epoch, _text(checkpoints), _text(resume), _text(join),
                          _text(address), _text(log))
        words = (ctypes.c_char_p * len(settings))(*(word.encode() for word in settings))
        pointer = ctypes.c_void_p()
        self.name = name if name is not None else _own_name()
        checked(lib.gs_open(_text(job), words, len(words), self.name.encode(), tensors, len(tensors), ctypes.byref(options), ctypes.byref(pointer)))
        assert pointer.value is not None
        self._handle = _Handle(pointer.value)
        self._number = {key: number for number, key in enumerate(starts)}
        self.parameters: Dict[str, Array] = {}
        self.gradients: Dict[str, Array] = {}
        for number, (key, start) in enumerate(starts.items()):
            self.parameters[key] = self._handle.array(lib.gs_parameters(pointer, number), start.shape, False)
            self.gradients[key] = self._handle.array(lib.gs_gradient(pointer, number), start.shape, True)

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait until the parameters of the next round stand; False: the run is over, as the job says.

        Raises
        ------
        TimeoutError
            Not within ``timeout`` seconds.
        PeerLost, Diverged, Interrupted, BadInput, Failed
            The run has ended for another reason.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SLICE_S if until is None else min(_SLICE_S, max(until - time.monotonic(), 0.0))
            status = checked(lib.gs_wait(self._handle.pointer, left))
            if status != TIMEOUT:
                return status != DONE
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"the round's parameters do not stand after {timeout:g} seconds")

    def rounds(self) -> Iterator[Dict[str, Array]]:
        """The parameters of each round, as long as the run goes on; :meth:`post` is called in between."""
        while self.wait():
            yield self.parameters

    def ready(self, key: str) -> None:
        """That array's gradient stands in this round: its exchange may begin. Need not be called."""
        checked(lib.gs_ready(self._handle.pointer, self._number[key]))

    def post(self, loss: float, rows: int) -> None:
        """All gradients stand. ``loss``: mean over the batch of ``rows`` samples."""
        checked(lib.gs_post(self._handle.pointer, float(loss), rows))

    @property
    def report(self) -> Report:
        """How it goes."""
        progress = Progress()
        checked(lib.gs_report(self._handle.pointer, ctypes.byref(progress), ctypes.sizeof(progress)))
        values: Dict[str, Any] = {field.name: getattr(progress, field.name) for field in dataclasses.fields(Report)}
        return Report(**values)

    def save(self, path: Path) -> None:
        """Write the parameters as a safetensors file; between :meth:`wait` and :meth:`post`, or after the run."""
        checked(lib.gs_save(self._handle.pointer, _text(path)))

    def interrupt(self) -> None:
        """End the run soon; from any thread. :meth:`wait` raises Interrupted then."""
        checked(lib.gs_interrupt(self._handle.pointer))

    def close(self) -> None:
        """End the run where it still goes on. Arrays keep their values."""
        lib.gs_end(self._handle.pointer)

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[types.TracebackType]) -> None:
        self.close()
