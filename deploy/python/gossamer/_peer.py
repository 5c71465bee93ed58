"""A peer for loops over NumPy arrays."""
from typing import Dict, Iterator, Mapping, Optional, Sequence

import numpy
import numpy.typing

from . import _errors
from ._base import Array, BasePeer, Path, Settings, _text, starts_of
from ._library import checked, lib


class _Gradients(Dict[str, Array]):
    """Arrays that stay where they are: what is put in one's place is copied into it."""

    def __setitem__(self, key: str, value: numpy.typing.ArrayLike) -> None:
        if key not in self:
            raise KeyError(f"{key}; expected one of {', '.join(self)}")
        array, given = self[key], numpy.asarray(value)
        if given is not array and given.shape != array.shape:
            raise _errors.BadInput(f"gradients['{key}']: found the shape {given.shape}, expected {array.shape}")
        array[...] = given


class Peer(BasePeer):
    """One of a job's peers, whose gradients a loop of one's own computes, on one thread at a time.

    Parameters
    ----------
    job : path
        The job file; its ``[model]`` and ``[data]`` are not used.
    parameters : mapping of str to array
        The model's arrays and where they start, in the order in which the model uses them. Copied. All peers begin with the first one's, or with
        what a run under way has.
    name : str, optional
        Of the peer in the job; by default ``GOSSAMER_NAME``, or ``peer0``, ``peer1`` … by ``RANK`` or ``SLURM_PROCID``.
    settings : sequence of str, optional
        As of ``--set``: ``"exchange.codec=dense"``.
    rows : int, optional
        Of the data, for all peers together: :attr:`batch` says then, by the job's split, which of them a batch is made of.
    labels : array of int, optional
        Of the rows, from 0 on, which some splits read.
    steps_per_epoch : int, optional
        Steps in which the peers together go through all data once; follows from ``rows``.
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
                 settings: Sequence[str] = (), rows: int = 0, labels: Optional[numpy.typing.ArrayLike] = None, steps_per_epoch: int = 0,
                 checkpoints: Optional[Path] = None, resume: Optional[Path] = None, join: Optional[str] = None,
                 address: Optional[str] = None, session: int = 0, log: Optional[Path] = None):
        starts = starts_of(parameters)
        super().__init__(job, starts, Settings(name=name, settings=settings, rows=rows, labels=labels, steps_per_epoch=steps_per_epoch,
                                               checkpoints=checkpoints, resume=resume, join=join, address=address, session=session, log=log))
        self._number = {start.name: number for number, start in enumerate(starts)}
        self.parameters: Dict[str, Array] = dict(zip(self._number, self._arrays(lib.gs_parameters, starts, False)))
        self.gradients: Dict[str, Array] = _Gradients(zip(self._number, self._arrays(lib.gs_gradient, starts, True)))

    def wait(self, timeout: Optional[float] = None) -> bool:
        stands = super().wait(timeout)
        if stands:
            self._look_at_members()
        return stands

    wait.__doc__ = BasePeer.wait.__doc__

    def rounds(self) -> Iterator[Dict[str, Array]]:
        """The parameters of each round, as long as the run goes on; :meth:`post` is called in between."""
        while self.wait():
            yield self.parameters

    @property
    def batch(self) -> "numpy.typing.NDArray[numpy.uint32]":
        """Rows of the present batch, by the job's split."""
        return self.rows_of(self.step_number)

    def ready(self, key: str) -> None:
        """That array's gradient stands in this round: its exchange may begin. Need not be called."""
        checked(lib.gs_ready(self._handle.pointer, self._number[key]))

    def post(self, loss: float, rows: int) -> None:
        """All gradients stand. ``loss``: mean over the batch of ``rows`` samples, 0 where it had none."""
        self._post(loss, rows)

    def save(self, path: Path) -> None:
        """Write the parameters as a safetensors file; between :meth:`wait` and :meth:`post`, or after the run."""
        checked(lib.gs_save(self._handle.pointer, _text(path)))
