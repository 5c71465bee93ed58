"""A program's own gradients on a simulated network."""
import ctypes
import dataclasses
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy
import numpy.typing

from . import _errors
from ._base import Array, Path, Report, Start, Tensors, _text, check_starts, checked_labels, report_of, starts_of, whole, words_of
from ._library import ERRORS, Ending, GradientFunction, Progress, ReportFunction, Simulation, checked, lib

Gradient = Callable[[int, int, "numpy.typing.NDArray[numpy.uint32]", Dict[str, Array], Dict[str, Array]], Tuple[float, int]]


@dataclasses.dataclass(frozen=True)
class SimulatedPeer:
    """How a simulated peer ended.

    Attributes
    ----------
    error : GossamerError or None
        What a real peer would have raised; None where it trained to the end.
    rounds, rows : int
        Rounds finished; samples seen.
    loss : float
        Mean over the last epoch's steps.
    bytes_out, bytes_in : int
        Whole frames.
    parameters : dict of str to array
        What it learned.
    """

    error: Optional[_errors.GossamerError]
    rounds: int
    rows: int
    loss: float
    bytes_out: int
    bytes_in: int
    parameters: Dict[str, Array]


@dataclasses.dataclass(frozen=True)
class Simulated:
    """A simulated run.

    Attributes
    ----------
    peers : list of SimulatedPeer
        In the job's order.
    seconds : float
        Of virtual time, until the last peer ended.
    digest : int
        Of all parameters of all peers: equal runs, equal digest.
    """

    peers: List[SimulatedPeer]
    seconds: float
    digest: int


class _Arrays:
    """Views of one peer's memory, made once for each place that the library shows."""

    def __init__(self, starts: Sequence[Start]):
        self._starts = starts
        self._known: Dict[Tuple[int, ...], Dict[str, Array]] = {}

    def at(self, places: "ctypes._Pointer[ctypes.c_void_p]") -> Dict[str, Array]:
        key = tuple(places[number] or 0 for number in range(len(self._starts)))
        if key not in self._known:
            if len(self._known) > 4096:  # of peers that came and went
                self._known.clear()
            arrays = {}
            for start, address in zip(self._starts, key):
                memory = (ctypes.c_float * start.values.size).from_address(address)
                arrays[start.name] = numpy.frombuffer(memoryview(memory), dtype=numpy.float32).reshape(start.values.shape)
            self._known[key] = arrays
        return self._known[key]


def simulate_arrays(job: Path, starts: Sequence[Start], gradient: Gradient, *, peers: int = 0, rows: int = 0,
                    labels: Optional[numpy.typing.ArrayLike] = None, steps_per_epoch: int = 0, settings: Sequence[str] = (), seed: int = 1,
                    report: Optional[Callable[[int, float, Report], None]] = None) -> Simulated:
    """As :func:`simulate`, of arrays some of which have no gradient."""
    arrays = _Arrays(starts)
    thrown: List[BaseException] = []

    def called(_: int, peer: int, step: int, batch: "ctypes._Pointer[ctypes.c_uint32]", count: int, x: "ctypes._Pointer[ctypes.c_void_p]",
               g: "ctypes._Pointer[ctypes.c_void_p]", loss: "ctypes._Pointer[ctypes.c_double]") -> int:
        try:
            taken = numpy.ctypeslib.as_array(batch, (count,)).copy() if count else numpy.empty(0, dtype=numpy.uint32)
            mean, samples = gradient(peer, step, taken, arrays.at(x), arrays.at(g))
            loss[0] = float(mean)
            return whole("the number of samples", samples)
        except BaseException as error:  # is raised again below; the library has no use for it
            thrown.append(error)
            return -1

    def told(_: int, peer: int, seconds: float, progress: "ctypes._Pointer[Progress]") -> None:
        try:
            if report is not None and not thrown:
                report(peer, seconds, report_of(progress[0]))
        except BaseException as error:
            thrown.append(error)

    check_starts(starts)
    seed, peers, steps_per_epoch = whole("seed", seed, 2**64), whole("peers", peers), whole("steps_per_epoch", steps_per_epoch)
    rows = whole("rows", rows)
    tensors, numbers = Tensors(starts), checked_labels(labels, rows)
    calls = GradientFunction(called), ReportFunction(told)
    options = Simulation(ctypes.sizeof(Simulation), calls[0], calls[1], None, seed, peers, steps_per_epoch, rows,
                         None if numbers is None else numbers.ctypes.data)
    words = words_of(settings)
    result = ctypes.c_void_p()
    status = lib.gs_simulate(_text(job), words, len(words), tensors.array, len(starts), ctypes.byref(options), ctypes.byref(result))
    try:
        if thrown:
            raise thrown[0]
        checked(status)
        return _told_of(result, starts)
    finally:
        lib.gs_simulated_free(result)


def _told_of(result: ctypes.c_void_p, starts: Sequence[Start]) -> Simulated:
    all_peers = []
    ending = Ending()
    for peer in range(lib.gs_simulated_peers(result)):
        status = lib.gs_simulated_end(result, peer, ctypes.byref(ending), ctypes.sizeof(ending))
        error = ERRORS.get(status, _errors.Failed)(lib.gs_error().decode(errors="replace")) if status > 1 else None
        parameters = {}
        for number, start in enumerate(starts):
            memory = (ctypes.c_float * start.values.size).from_address(lib.gs_simulated_parameters(result, peer, number))
            parameters[start.name] = numpy.frombuffer(memoryview(memory), dtype=numpy.float32).reshape(start.values.shape).copy()
        all_peers.append(SimulatedPeer(error, ending.rounds, ending.rows, ending.loss, ending.bytes_out, ending.bytes_in, parameters))
    return Simulated(all_peers, ending.virtual_seconds, ending.digest)


def simulate(job: Path, parameters: Mapping[str, numpy.typing.ArrayLike], gradient: Gradient, *, peers: int = 0, rows: int = 0,
             labels: Optional[numpy.typing.ArrayLike] = None, steps_per_epoch: int = 0, settings: Sequence[str] = (), seed: int = 1,
             report: Optional[Callable[[int, float, Report], None]] = None) -> Simulated:
    """All peers of the job in one process and in virtual time, on a simulated network (``[sim]``): slow links, losses, slow peers, crashes.

    Deterministic: equal gradients, equal digest; where the method is synchronous, the bits that peers over sockets come to.

    Parameters
    ----------
    job, parameters, rows, labels, steps_per_epoch, settings
        As of :class:`gossamer.Peer`.
    gradient : callable
        ``gradient(peer, step, rows, parameters, gradients)`` writes the gradients at the parameters, for the batch of those rows (none where
        ``rows`` is 0), and gives its mean loss and its number of samples. What it raises ends the simulation.
    peers : int, optional
        In place of the job's number.
    seed : int, optional
        Of the network's faults and times.
    report : callable, optional
        ``report(peer, seconds, Report)``, every ``run.report_every`` seconds of virtual time.
    """
    return simulate_arrays(job, starts_of(parameters), gradient, peers=peers, rows=rows, labels=labels, steps_per_epoch=steps_per_epoch, settings=settings,
                           seed=seed, report=report)
