"""What who comes later takes over of the others' schedules: rates and other numbers of the optimiser's groups, and schedulers' states.

A text in an array of the peer's, which goes along with the optimiser's state. It comes from other peers: of it only numbers and short texts are
taken, in place of such, and nothing is unpickled."""
import json
import warnings
from typing import Any, Dict, Mapping, Optional, Tuple

import numpy
import torch

from . import _errors
from ._base import Array, whole

_NUMBER = 32  # bytes in which each stands
_ROOM = 4096  # for a scheduler that only step() is given, and the rest
_LATE = 16  # rounds that others may go on while what one has learned is on its way
_MOST = 2**16  # of what one scheduler says
_OWN = {"params", "foreign", "fused", "capturable", "differentiable"}  # of a group: how this machine computes it


def _plain(value: Any) -> Tuple[bool, Any]:
    """Whether JSON has it as it is; of dictionaries, the part that it has."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return True, value
    if isinstance(value, (list, tuple)):
        parts = [_plain(part) for part in value]
        return all(fits for fits, _ in parts), [part for _, part in parts]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        found = {key: _plain(part) for key, part in value.items()}
        return True, {key: part for key, (fits, part) in found.items() if fits}
    return False, None


def _plain_part(values: Mapping[str, Any]) -> Dict[str, Any]:
    part: Dict[str, Any] = _plain(dict(values))[1]
    return part


def _room(value: Any) -> int:
    """Of the text, whatever the numbers are, so that all peers have as much."""
    if isinstance(value, dict):
        return sum(len(key) + 6 + _room(part) for key, part in value.items()) + 2
    if isinstance(value, list):
        return sum(2 + _room(part) for part in value) + 2
    return _NUMBER + (len(value) if isinstance(value, str) else 0)


def _kind(value: Any) -> int:
    return 1 if isinstance(value, str) else 2 if isinstance(value, (list, tuple)) else 3 if isinstance(value, dict) else 0


def _into(own: Dict[str, Any], told: Mapping[str, Any]) -> Dict[str, Any]:
    """Of theirs, what this one has something of the kind for."""
    return {key: tuple(value) if isinstance(own[key], tuple) else value for key, value in told.items()
            if key in own and _plain(own[key])[0] and _kind(own[key]) == _kind(value) and (value is not None or own[key] is None)}


def _no_nan(text: str) -> float:
    if text == "NaN":
        raise ValueError("found NaN; expected a number")
    return float(text)


def _load(scheduler: Any, told: Mapping[str, Any]) -> None:
    state = scheduler.state_dict()
    state.update(_into(state, told))
    scheduler.load_state_dict(state)


def _catch_up(scheduler: Any, steps: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no optimiser has stepped in between: others' have
        for _ in range(steps):
            scheduler.step()


class Schedules:
    """Those of one loop's optimiser; ``state`` as of ``join``, of which schedulers of that optimiser are handed on: all else is each peer's.
    ``buffers``: a digest of the model's, which goes along so that a newcomer's can be compared."""

    def __init__(self, optimizer: torch.optim.Optimizer, state: Mapping[str, Any], buffers: str):
        self._optimizer, self._buffers = optimizer, buffers
        self._named = {name: thing for name, thing in state.items() if getattr(thing, "optimizer", None) is optimizer}
        told = {"buffers": self._buffers, "groups": self._groups(), "state": {name: _plain_part(thing.state_dict()) for name, thing in self._named.items()}}
        self.empty = numpy.zeros(-(-(_room(told) + _ROOM) // 4), dtype=numpy.float32)
        self._array, self._written = self.empty, b""
        self._late: Optional[Dict[str, Any]] = None  # of the scheduler that step() is given
        self._missed = 0  # steps that this one is to make up for
        self._first = True

    def _groups(self) -> Any:
        return [_plain_part({key: value for key, value in group.items() if key not in _OWN}) for group in self._optimizer.param_groups]

    def hold(self, array: Array) -> None:
        """Where the peer has it from now on."""
        self._array = array

    def tell(self, scheduler: Any, step: int, batches: int) -> None:
        """As the step leaves them. ``scheduler``: what goes by steps, or None; ``step``: the one that comes next; ``batches``: beside the steps'."""
        by_step = next((name for name, thing in self._named.items() if thing is scheduler), "")
        state = {name: _plain_part(thing.state_dict()) for name, thing in self._named.items()}
        if scheduler is not None and not by_step:
            state[""] = _plain_part(scheduler.state_dict())
        state = {name: part for name, part in state.items() if _room(part) <= _MOST}
        told = {"step": step, "batches": batches, "by_step": by_step, "buffers": self._buffers, "groups": self._groups(), "state": state}
        memory = self._array.view(numpy.uint8)
        text = json.dumps(told).encode()
        if len(text) + 4 > memory.size:  # a scheduler that keeps ever more: the rest is told
            text = json.dumps({**told, "state": {}}).encode()
        if len(text) + 4 > memory.size:
            text = b""
        memory[:4] = numpy.frombuffer(len(text).to_bytes(4, "little"), dtype=numpy.uint8)
        memory[4:4 + len(text)] = numpy.frombuffer(text, dtype=numpy.uint8)
        self._written = text

    def _text(self) -> bytes:
        memory = self._array.view(numpy.uint8)
        return memory[4:4 + int.from_bytes(memory[:4].tobytes(), "little")].tobytes()

    def known(self) -> None:
        """What stands there is how this peer's are already."""
        self._written, self._first = self._text(), False

    def take(self, step: int, exact: bool) -> Optional[int]:
        """Where another's, or an earlier own, has come with the optimiser's state, it becomes this one's; gives its batches then. ``step``: the
        one that comes next. ``exact``: all peers step alike; else what comes may be of a few rounds before, which are made up for."""
        text = self._text()
        if not text and self._first:
            self._missed = step
        first, self._first = self._first, False
        if not text or text == self._written:
            return None
        self._written = text
        try:
            told = json.loads(text, parse_constant=_no_nan)
            theirs = told["buffers"]
            behind = step - int(told["step"])
            self._missed = behind if not exact and 0 < behind <= _LATE else 0  # numbers of steps leap where members change
            for group, values in zip(self._optimizer.param_groups, told["groups"]):
                group.update(_into({key: value for key, value in group.items() if key not in _OWN}, values))
            for name, values in told["state"].items():
                if name in self._named:
                    _load(self._named[name], values)
            by_step = self._named.get(told["by_step"])
            if by_step is not None:
                self._missed, missed = 0, self._missed
                _catch_up(by_step, missed)
            self._late = told["state"].get("")
            batches = whole("batches", told["batches"])
        except (ValueError, TypeError, AttributeError, RecursionError, ArithmeticError, LookupError) as error:
            raise _errors.BadInput(f"what another peer tells of its optimiser's schedule cannot be read: {error}") from error
        if first and theirs != self._buffers:
            warnings.warn("buffers of the model are others than those of the run, and nobody exchanges them", stacklevel=5)
        return batches

    def meet(self, scheduler: Any) -> None:
        """What goes by steps, before the first of these, where it was unknown until now or nobody told anything: then by their number."""
        late, missed, self._late, self._missed = self._late, self._missed, None, 0
        if late is not None:
            _load(scheduler, late)
        if late is not None or getattr(scheduler, "last_epoch", 0) == 0:  # else the loop has seen to it
            _catch_up(scheduler, missed)
