"""PyTorch loops as peers.

>>> import gossamer.torch
>>> model = Net(); optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
>>> with gossamer.torch.join("job.toml", model, optimizer, rows=len(train)) as peer:     # waits for the others
...     loader = DataLoader(train, batch_sampler=peer.sampler())
...     for x, y in peer.batches(loader):                                                # as many rounds everywhere
...         optimizer.zero_grad()
...         loss = F.cross_entropy(model(x), y)
...         loss.backward()
...         peer.step(loss)                                                              # optimizer.step() and the exchange
...     peer.save(f"{peer.name}.safetensors")
"""
import dataclasses
import functools
import hashlib
import math
import os
import pickle
import random
import types
import warnings
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar

import numpy
import numpy.typing
import torch

from . import _errors, _safetensors
from ._base import Array, BasePeer, Path, Report, Settings, Start, whole
from ._library import checked, lib
from ._schedules import Schedules
from ._simulate import Simulated, simulate_arrays

T = TypeVar("T")
_MOST_OF_STEP = 64  # batches, where that is more than a pass: a loop that takes more has forgotten the step
_LEAVE_S = 10.0  # that a loop has to its next step when it is told to end, as run.grace has it

# What each optimiser keeps of a parameter, all of it zeros at first; others' state is not handed to other peers.
_KEPT: Dict[type, Tuple[str, ...]] = {
    torch.optim.SGD: ("momentum_buffer",),
    torch.optim.Adam: ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
    torch.optim.AdamW: ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
}


@dataclasses.dataclass
class _Bound:
    """A tensor of the model, and where the peer has it."""

    name: str
    tensor: torch.Tensor
    values: torch.Tensor
    gradient: torch.Tensor
    state: bool

    @property
    def on_host(self) -> bool:
        return self.tensor.device.type == "cpu"


def _statistics(model: torch.nn.Module) -> Iterator[Tuple[str, torch.Tensor]]:
    """Running means and variances."""
    for prefix, module in model.named_modules():
        if not isinstance(module, torch.nn.modules.batchnorm._NormBase):
            continue
        for key in ("running_mean", "running_var"):
            buffer = getattr(module, key)
            if buffer is not None:
                yield f"{prefix}.{key}" if prefix else key, buffer


def _host(tensor: torch.Tensor) -> "numpy.typing.NDArray[numpy.float32]":
    array: "numpy.typing.NDArray[numpy.float32]" = numpy.asarray(tensor.detach().cpu().numpy(), dtype=numpy.float32, order="C")
    return array


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''}"


def _plain(model: torch.nn.Module) -> torch.nn.Module:
    """What ``torch.compile`` was given, whose names, unlike those of what it makes, are the same on every peer and in every file."""
    inner = getattr(model, "_orig_mod", model)
    return inner if isinstance(inner, torch.nn.Module) else model


def _tensors_of(model: torch.nn.Module, statistics: bool) -> Tuple[List[Tuple[str, torch.Tensor]], List[Start]]:
    """What is learned, then what has no gradient; by name. Without elements, a tensor has nothing to exchange."""
    parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad and p.numel() > 0]
    if not parameters:
        raise _errors.BadInput("the model has no parameter that requires a gradient; expected at least one to learn")
    states = list(_statistics(model)) if statistics else []
    for name, tensor in [*parameters, *states]:
        if tensor.dtype != torch.float32 or tensor.layout != torch.strided:
            raise _errors.BadInput(f"{name} is of type {tensor.dtype}, {tensor.layout}; expected torch.float32, dense (mixed precision keeps "
                                   "such parameters and computes in others: torch.autocast)")
    return [*parameters, *states], [Start(name, _host(p)) for name, p in parameters] + [Start(name, _host(b), True) for name, b in states]


def _digest(tensors: Iterable[Tuple[str, torch.Tensor]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        if tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_meta:
            digest.update(tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _buffers(model: torch.nn.Module) -> str:
    """A digest of those in files but for normalisations' statistics."""
    own = {id(buffer) for module in model.modules() if isinstance(module, torch.nn.modules.batchnorm._NormBase) for buffer in module.buffers()}
    kept = model.state_dict(keep_vars=True)
    return _digest((name, buffer) for name, buffer in model.named_buffers() if name in kept and id(buffer) not in own)


def _frozen(model: torch.nn.Module) -> Optional[str]:
    """What all peers must have alike, as nobody learns it."""
    frozen = [(name, p) for name, p in model.named_parameters() if not p.requires_grad and p.numel() > 0]
    return f"{len(frozen)} frozen parameters, from one file or one seed, of digest {_digest(frozen)}" if frozen else None


def _rule(optimizer: Optional[torch.optim.Optimizer]) -> Optional[str]:
    """By which it steps now; numbers and words alone."""
    if optimizer is None:
        return None
    passed_over = {"params", "initial_lr", "foreach", "fused", "capturable", "differentiable"}  # what changes no step

    def said(value: Any) -> Optional[str]:
        if isinstance(value, torch.Tensor):
            return repr(float(value)) if value.numel() == 1 else None
        if isinstance(value, (list, tuple)):
            parts = [said(part) for part in value]
            return None if None in parts else f"({', '.join(str(part) for part in parts)})"
        return str(value) if value is None or isinstance(value, (bool, int, float, str)) else None

    groups = [" ".join(f"{key} {said(value)}" for key, value in sorted(group.items()) if key not in passed_over and said(value) is not None)
              for group in optimizer.param_groups]
    rule = f"steps of {type(optimizer).__name__} with {', then with '.join(groups)}"
    return rule if len(rule) <= 180 else f"{rule[:100]} …, of digest {hashlib.blake2b(rule.encode(), digest_size=8).hexdigest()}"


class _Copies:
    """Of what devices compute into the peer's memory, in order; nobody waits for them but who asks."""

    def out(self, to: torch.Tensor, source: torch.Tensor) -> None:
        to.copy_(source, non_blocking=True)

    def mark(self, device: torch.device) -> Callable[[], Any]:
        """Waits, when called, until the device has done what it was asked so far."""
        if device.type != "cuda":
            return lambda: None
        event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(device))
        return event.synchronize  # type: ignore[no-any-return]


class _Row(int):
    """A row's number, and in which pass over the data it comes."""

    epoch: int


class _Seeded(torch.utils.data.Dataset[Any]):
    """What it draws for a row depends on seed, pass and row alone."""

    def __init__(self, data: "torch.utils.data.Dataset[Any]", seed: int):
        self._data, self._seed = data, seed

    def __len__(self) -> int:
        return len(self._data)  # type: ignore[arg-type]

    def __getitem__(self, row: int) -> Any:
        if not isinstance(row, _Row):
            warnings.warn("rows come without their epoch, so that each draws the same in all epochs; expected peer.seeded(…) around everything else "
                          "(Subset, ConcatDataset …), and a loader with batch_sampler=peer.sampler()", stacklevel=2)
        text = f"{self._seed} {getattr(row, 'epoch', 0)} {int(row)}"
        seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        # in the loop's process generators are the loop's
        own = torch.utils.data.get_worker_info() is None  # type: ignore[no-untyped-call]
        before = (torch.get_rng_state(), numpy.random.get_state(), random.getstate()) if own else None
        torch.default_generator.manual_seed(seed % 2**63)
        numpy.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            return self._data[int(row)]
        finally:
            if before is not None:
                torch.set_rng_state(before[0])
                numpy.random.set_state(before[1])
                random.setstate(before[2])


class Sampler(Iterable[List[int]]):
    """Numbers of the rows of this peer's batches, from the one that comes next to the end of the epoch; what DataLoader takes as
    ``batch_sampler``. Rows are the job's split's, and those of peers that are gone go to the others.

    Batches are counted as the loop takes them, which may be several for a step: each pass covers the rows once. Who takes part later
    begins where the others are; with the job's optimiser as if there had been a batch for each step."""

    def __init__(self, peer: "Peer", steps_per_epoch: int):
        self._peer, self._steps = peer, steps_per_epoch
        self._end: Optional[int] = None  # of the pass before, which was gone through

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[List[int]]:
        first = self._peer._batch_number(self._end)
        self._end = None
        for step in range(first, (first // self._steps + 1) * self._steps):
            rows = [_Row(row) for row in self._peer.rows_of(step)]
            for row in rows:
                row.epoch = step // self._steps
            yield list(rows)
        self._end = (first // self._steps + 1) * self._steps


class Peer(BasePeer):
    """One of a job's peers, whose loop is PyTorch's, on one thread at a time; see :func:`join`.

    Where the model is on the CPU, its parameters, and the gradients that are exchanged, are arrays of the peer's from the beginning to the end.
    """

    def __init__(self, job: Path, model: torch.nn.Module, optimizer: Optional[torch.optim.Optimizer], statistics: bool, given: Settings,
                 state: Mapping[str, Any]):
        model = _plain(model)
        tensors, starts = _tensors_of(model, statistics)
        self._model, self._optimizer = model, optimizer
        self._rows: Optional[int] = None  # in what batches() gave last
        self._state = dict(state)
        self._own_state = self._state_of_optimizer([tensor for _, tensor in tensors])
        kept = [Start(f"{number}.{key}", _host(self._state_at(p)[key])) for number, (p, key) in enumerate(self._own_state)]
        self._schedules = None if optimizer is None else Schedules(optimizer, self._state, _buffers(model))
        if self._schedules is not None:
            kept.append(Start("schedules", self._schedules.empty))
        super().__init__(job, starts, dataclasses.replace(given, own_steps=optimizer is not None, alike=_frozen(model),
                                                             alike_steps=_rule(optimizer)), kept)
        self._by_mean = bool(lib.gs_steps_by_mean(self._handle.pointer))
        if self._by_mean and optimizer is not None and not _can_keep(optimizer):
            self.close()
            raise _errors.BadInput(f"the method steps by the mean of all gradients, so that all must keep the same, and what "
                                   f"{type(optimizer).__name__} keeps cannot be handed to others; expected one of "
                                   f"{', '.join(kind.__name__ for kind in _KEPT)}, the job's own (optimizer=None), or a method that averages parameters")
        values, gradients = self._arrays(lib.gs_changing, starts, True), self._arrays(lib.gs_gradient, starts, True)
        self._bound = [_Bound(name, tensor, torch.from_numpy(value), torch.from_numpy(gradient), start.state)
                       for (name, tensor), start, value, gradient in zip(tensors, starts, values, gradients)]
        arrays = self._arrays(lib.gs_kept, kept, True)
        if self._schedules is not None:
            self._schedules.hold(arrays.pop())
        self._kept = [torch.from_numpy(array) for array in arrays]
        if not self._by_mean and any(not bound.on_host for bound in self._bound):
            self._own_state, self._kept = [], []  # to copy it from a device in every step costs more than a newcomer gains
        for held, (p, key) in zip(self._kept, self._own_state):
            if self._state_at(p)[key].device.type == "cpu":
                self._state_at(p)[key] = held
        self._known_state = [self._state_at(p)[key] for p, key in self._own_state]
        bound = {id(tensor) for _, tensor in tensors}
        self._unbound = [(name, p) for name, p in model.named_parameters() if id(p) not in bound and p.numel() > 0]
        self._optimized = 0 if optimizer is None else sum(len(group["params"]) for group in optimizer.param_groups)
        self._devices = {bound.tensor.device for bound in self._bound if not bound.on_host}
        self._pin()
        self._copies = _Copies()
        self._warned = self._warned_late = False
        self._versions: List[int] = []  # of what is learned, as the step before left it
        self._computing = False
        self._further = 0  # batches that were no step's last
        self._unstepped = False  # a batch was given, and no step taken since
        self._by_batches = False  # the loop goes through batches()
        self._warned_of_rows = False
        self._goes_on = False  # from a checkpoint, and has begun no pass since
        self._since_step = self._most_of_step = 0  # batches; the most that a step took so far
        self._sampled, self._deals = given.rows, False
        self._remembers = given.checkpoints is not None or bool(os.environ.get("GOSSAMER_CHECKPOINTS"))
        try:
            if self.wait():
                if self.remembered:
                    self._recall()
                    if self._schedules is not None:
                        self._schedules.known()
                self._begin_round()
        except BaseException:
            self.close()
            raise

    # --- the loop's

    def sampler(self) -> Sampler:
        """Batches of row numbers for ``DataLoader(data, batch_sampler=peer.sampler())``; ``join`` must be told how many rows there are."""
        if not self._sampled:
            raise _errors.Misuse("the number of rows is not known; expected join(..., rows=len(data))")
        self._deals = True
        return Sampler(self, self.steps_per_epoch)

    def _batch_number(self, passed: Optional[int]) -> int:
        """Of the batch that the loop takes next, counted from the run's beginning. ``passed``: where the sampler's pass ended, when all of it
        was asked for, which alone says how many batches went to a step where the loop has the loader to itself."""
        step = self.step_number
        if passed is not None and not self._by_batches:
            self._further = max(self._further, passed - step)
        return step + self._further + self._unstepped

    def seeded(self, data: "torch.utils.data.Dataset[Any]", seed: int = 0) -> "torch.utils.data.Dataset[Any]":
        """``data``, whose rows draw what they draw (augmentations) by seed, epoch and row alone: whichever of a loader's workers makes them, on
        whichever peer, and in a run that goes on from a checkpoint. For loaders with :meth:`sampler`, and around ``Subset``, ``ConcatDataset`` and
        the like, which hand on no epoch; the generators are torch's, NumPy's and Python's, which the loop's own process finds as it left them."""
        return _Seeded(data, seed)

    def batches(self, loader: Iterable[T]) -> Iterator[T]:
        """What the loader gives, again and again, one for each round, until the run is over: as many on every peer, however much data each
        has. Between two of them :meth:`step` is called once, or not at all where gradients are accumulated over several, and what ends the
        run is the number of steps.

        Raises
        ------
        Misuse
            A whole pass over the loader, of 64 batches or several passes of fewer, went by without a step.
        KeyboardInterrupt, SystemExit
            The program was told to end (Ctrl-C, SIGTERM), also where the loop takes no step any more."""
        self._by_batches = True
        while True:
            given = 0
            for batch in self._begin_pass(loader):
                given += 1
                if not self._next():
                    return
                self._further += self._unstepped
                self._unstepped = True
                self._since_step += 1
                self._rows = _rows_in(batch)
                yield batch
                self._look_for_signals()
            if given == 0:
                raise _errors.BadInput("the loader gave no batch; expected at least one in each pass over it")
            if self._since_step >= max(given, _MOST_OF_STEP):
                raise _errors.Misuse(f"{self._since_step} batches and no peer.step(loss), by which the other peers hear of this one; expected one after each "
                                     "batch, or after several where gradients are accumulated, in place of optimizer.step()")

    def _begin_pass(self, loader: Iterable[T]) -> Iterator[T]:
        """An iterator, which draws seeds of its workers and, where these ask for rows at once, of its order. A run that goes on in the midst of an
        epoch begins one more than one that never stopped: what that one draws is neither taken from the generator nor drawn again later."""
        goes_on, self._goes_on = self._goes_on, False
        if not goes_on or self.steps_per_epoch == 0 or self._batch_number(None) % self.steps_per_epoch == 0:
            return iter(loader)
        before = torch.get_rng_state()
        torch.default_generator.manual_seed(int(torch.empty((), dtype=torch.int64).random_()))
        ahead = iter(loader)
        torch.set_rng_state(before)
        return ahead

    def _look_for_signals(self) -> None:
        """A loop that is told to end does so by its next step; without one nothing else would end it."""
        if self._since_step > self._most_of_step and self._signals.since() > _LEAVE_S:
            self._signals.off()
            raise self._signals.raised(_errors.Interrupted("told to end in a round that had no peer.step"))

    def step(self, loss: "torch.Tensor | float", rows: Optional[int] = None, scaler: Any = None, scheduler: Any = None) -> None:
        """Step by the gradients that ``backward`` left, and exchange; once in a round.

        What comes after it (``clamp_``, ``load_state_dict``) is lost where the method averages parameters: those of the next round take their
        place. A model is changed before it, by its gradient or between ``backward`` and the step; the first change that comes too late is
        warned of.

        Parameters
        ----------
        loss : tensor or float
            Mean over the batch. Where it or a gradient is not finite, the step is left out, and optimisers' state is as it was, unless all
            step by the mean of their gradients and others' are finite: then this peer steps by those.
        rows : int, optional
            Samples in the batch; by default the first dimension of the first tensor in what :meth:`batches` gave last, and where that has none
            as many as the sampler dealt for it; else 1, which is warned of.
        scaler : torch.cuda.amp.GradScaler, optional
            Steps the optimiser in its place, where the peer steps by its own gradients; ``unscale_`` must have been called before.
        scheduler : optional
            Of the rate, by steps: is stepped after the optimiser, so that checkpoints hold it, and newcomers have it, as the next round begins.

        Raises
        ------
        BadInput
            A parameter has a gradient that was frozen, or none of the model's, when the peer joined: what is learned is chosen then.
        """
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise _errors.BadInput("scheduler: ReduceLROnPlateau goes by a loss, of which each peer has its own; expected one that goes by steps, or "
                                   "its own step() after this one, with a loss that all peers have alike")
        if not self._next():
            return
        self._check_unbound()
        rows = self._rows_of_batch() if rows is None else whole("rows", rows)
        if scheduler is not None and self._schedules is not None:
            self._schedules.meet(scheduler)
        self._unstepped = False
        self._most_of_step, self._since_step = max(self._most_of_step, self._since_step), 0
        value = float(loss.detach()) if isinstance(loss, torch.Tensor) else float(loss)
        if self._optimizer is not None and not self._by_mean:
            self._hold_state()
            if scaler is not None and scaler.is_enabled():  # looks at the gradients itself
                scaler.step(self._optimizer)
            elif math.isfinite(value) and _all_finite(self._optimizer):
                self._optimizer.step()
            else:
                value = math.nan  # momentum, once it is not finite, stays so
            self._tell_state()
            self._hand_over_values()
            self._end_step(scheduler)
            self._end_round(value, rows)
            return
        self._hand_over_gradients()
        if not self._by_mean:
            self._end_step(scheduler)
        self._end_round(value, rows)
        if self._by_mean and self._optimizer is not None and self._wait_mean():
            self._take_gradients()
            self._hold_state()
            self._optimizer.step()
            self._tell_state()
            self._hand_over_values()
            self._end_step(scheduler)

    def _rows_of_batch(self) -> int:
        if self._rows is not None:
            return self._rows
        if self._by_batches and self._deals:
            return len(self.rows_of(self.step_number + self._further))
        if self._by_batches and not self._warned_of_rows:
            self._warned_of_rows = True
            warnings.warn("how many samples a batch has is not known, and 1 is counted: peer.batches() gave no tensor with rows; expected "
                          "peer.step(loss, rows=…)", stacklevel=3)
        return 1

    def _end_round(self, loss: float, rows: int) -> None:
        self._computing = False
        self._post(loss, rows)
        self._versions = [] if self._warned_late or self._by_mean else [bound.tensor._version for bound in self._bound]

    def _look_for_changes(self) -> None:
        """Between a step and the round's parameters, which take their place."""
        changed = [bound.name for bound, version in zip(self._bound, self._versions) if bound.tensor._version != version and not bound.state]
        self._versions = []
        if changed and not self._warned_late:
            self._warned_late = True
            warnings.warn(f"{_some(changed)} changed after peer.step(), and the round's parameters have taken their place; change parameters between "
                          "backward() and peer.step(), or in the optimiser's own step", stacklevel=4)

    def save(self, path: Path) -> None:
        """Write the model's ``state_dict()`` as a safetensors file, with what has no gradient; tied tensors once. As the round, or the run,
        left it. What is no tensor in it (``get_extra_state``) is left out, with a warning."""
        self._next()
        state = self._model.state_dict(keep_vars=False)
        others = [name for name, value in state.items() if not isinstance(value, torch.Tensor)]
        if others:
            warnings.warn(f"{_some(others)}: no tensors, which safetensors files cannot hold, and left out of {os.fspath(path)}; expected "
                          "load_state_dict(…, strict=False) for it", stacklevel=2)
        _safetensors.save(path, {name: value for name, value in state.items() if name not in others})

    def close(self) -> None:
        """End the run where it still goes on. The model keeps its values."""
        super().close()
        self._computing = False

    def _check_unbound(self) -> None:
        """Nothing is learned by one peer alone."""
        learned = [name for name, p in self._unbound if p.requires_grad and p.grad is not None]
        groups = [] if self._optimizer is None else self._optimizer.param_groups
        if sum(len(group["params"]) for group in groups) != self._optimized:
            known = {id(bound.tensor) for bound in self._bound} | {id(p) for _, p in self._unbound}
            learned += [f"a parameter of shape {tuple(p.shape)} that was added to the optimiser" for group in groups for p in group["params"]
                        if id(p) not in known and p.grad is not None and p.numel() > 0]
        if learned:
            raise _errors.BadInput(f"found gradients of {_some(learned)}, which the peer did not know as learned when it joined, so that nobody would "
                                   "exchange them; expected requires_grad, and a place in the model, before join (and a rate of 0 while they are to "
                                   "stay), or another run that begins with what this one has learned")

    # --- what checkpoints hold

    def _end_step(self, scheduler: Any) -> None:
        """What is random, and what has a state, as the next round begins."""
        if scheduler is not None:
            scheduler.step()
        if self._schedules is not None:
            self._schedules.tell(scheduler, self.step_number + (0 if self._by_mean else 1), self._further)
        if not self._remembers:
            return
        if scheduler is not None and all(thing is not scheduler for thing in self._state.values()):
            raise _errors.Misuse("checkpoints are made, and do not hold the scheduler; expected join(..., state={'scheduler': scheduler})")
        what: Dict[str, Any] = {"torch": torch.get_rng_state(), "numpy": numpy.random.get_state(), "python": random.getstate(),
                                "state": {name: thing.state_dict() for name, thing in self._state.items()}, "further": self._further}
        if torch.cuda.is_available():
            what["cuda"] = torch.cuda.get_rng_state_all()
        if self._optimizer is not None:
            kept = bool(self._own_state) or not self._optimizer.state
            what["groups"] = [{key: value for key, value in group.items() if key != "params"} for group in self._optimizer.param_groups]
            what["optimizer"] = None if kept else self._optimizer.state_dict()
        self.remember(pickle.dumps(what))

    def _recall(self) -> None:
        what = pickle.loads(self.remembered)
        torch.set_rng_state(what["torch"])
        numpy.random.set_state(what["numpy"])
        random.setstate(what["python"])
        if "cuda" in what and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(what["cuda"])
        self._further, self._goes_on = what.get("further", 0), True
        for name, state in what["state"].items():
            if name not in self._state:
                raise _errors.BadInput(f"the checkpoint holds the state of '{name}'; expected join(..., state={{'{name}': …}}) as before")
            self._state[name].load_state_dict(state)
        if self._optimizer is not None and what.get("optimizer") is not None:
            self._optimizer.load_state_dict(what["optimizer"])
        for group, values in zip(self._optimizer.param_groups if self._optimizer is not None else [], what.get("groups", [])):
            group.update(values)

    # --- the round

    def _next(self) -> bool:
        """Waits for the round, unless it is there; False: the run is over."""
        if self._computing:
            return True
        self._look_for_changes()
        if not self.wait():
            self._show_values()
            return False
        self._begin_round()
        return True

    def _begin_round(self) -> None:
        self._computing = True
        self._show_values()
        further = None if self._schedules is None else self._schedules.take(self.step_number, self._by_mean)
        self._further = self._further if further is None else further
        self._look_at_members()

    def _show_values(self) -> None:
        """The peer's values are the model's."""
        for bound in self._bound:
            if not bound.on_host:
                bound.tensor.data.copy_(bound.values, non_blocking=True)
            elif bound.tensor.data_ptr() != bound.values.data_ptr():
                bound.tensor.data = bound.values

    def _pin(self) -> None:
        """Memory that devices copy to and from by themselves."""
        if all(device.type != "cuda" for device in self._devices):
            return
        cuda: Any = torch.cuda
        runtime = cuda.cudart()
        for bound in self._bound:
            for tensor in (bound.values, bound.gradient):
                address = tensor.data_ptr()
                if int(runtime.cudaHostRegister(address, tensor.numel() * tensor.element_size(), 0)) == 0:
                    self._handle.before_close.append(functools.partial(runtime.cudaHostUnregister, address))

    def _settle(self) -> None:
        """What devices were asked to copy is there, and they have read what they were given."""
        for come in [self._copies.mark(device) for device in self._devices]:
            come()

    def _hand_over_values(self, stepped: bool = True) -> None:
        """The model's values are the peer's, wherever they are; where nobody has stepped, devices hold what the peer gave them but for what
        has no gradient."""
        moved = []
        for bound in self._bound:
            if bound.tensor.data_ptr() == bound.values.data_ptr() or not (stepped or bound.on_host or bound.state):
                continue
            if bound.tensor.shape != bound.values.shape:
                raise _errors.BadInput(f"{bound.name} has the shape {tuple(bound.tensor.shape)} now; expected {tuple(bound.values.shape)}, as when the peer joined")
            self._copies.out(bound.values, bound.tensor.detach())
            if bound.on_host:
                moved.append(bound.name)
                bound.tensor.data = bound.values
        self._settle()
        if moved and not self._warned:
            self._warned = True
            warnings.warn(f"{_some(moved)} moved to other memory, and each such move costs a copy; "
                          "to() and load_state_dict(assign=True) do that", stacklevel=3)

    def _hand_over_gradients(self) -> None:
        """Their exchange begins as they come, last first."""
        coming = []
        for number, bound in reversed(list(enumerate(self._bound))):
            if bound.state:
                continue
            gradient = bound.tensor.grad
            if gradient is None:
                bound.gradient.zero_()
            elif gradient.is_sparse or gradient.data_ptr() != bound.gradient.data_ptr():
                self._copies.out(bound.gradient, gradient.detach().to_dense() if gradient.is_sparse else gradient.detach())
                if bound.on_host:
                    bound.tensor.grad = bound.gradient
            if not bound.on_host:
                coming.append((number, self._copies.mark(bound.tensor.device)))
        for number, come in coming:
            come()
            checked(lib.gs_ready(self._handle.pointer, number))
        self._hand_over_values(stepped=False)

    def _take_gradients(self) -> None:
        """The mean of all peers', and of what has none."""
        for bound in self._bound:
            if bound.state:
                if not bound.on_host:
                    bound.tensor.data.copy_(bound.values, non_blocking=True)
                continue
            if not bound.on_host:  # also where this peer's own batch had none: others' had
                gradient = torch.empty_like(bound.tensor) if bound.tensor.grad is None else bound.tensor.grad
                bound.tensor.grad = gradient.copy_(bound.gradient, non_blocking=True)
            elif bound.tensor.grad is None or bound.tensor.grad.data_ptr() != bound.gradient.data_ptr():
                bound.tensor.grad = bound.gradient

    # --- the optimiser's state

    def _state_of_optimizer(self, parameters: List[torch.Tensor]) -> List[Tuple[torch.Tensor, str]]:
        """Makes what the optimiser would make in its first step; of which parameter and by which key each such tensor stands."""
        optimizer = self._optimizer
        if optimizer is None:
            return []
        known = {id(p) for p in parameters}
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.requires_grad and p.numel() > 0 and id(p) not in known:
                    raise _errors.BadInput(f"the optimiser has a parameter of shape {tuple(p.shape)} that is none of the model's; expected those of "
                                           "model.parameters() alone")
        if not _can_keep(optimizer):
            return []
        where = []
        for group in optimizer.param_groups:
            for p in group["params"]:
                for key in _KEPT[type(optimizer)] if id(p) in known else ():
                    if not _uses(group, key):
                        continue
                    state = optimizer.state[p]
                    if key == "step":
                        state[key] = torch.tensor(float(state.get(key, 0.0)))
                    elif state.get(key) is None:
                        state[key] = torch.zeros_like(p, memory_format=torch.preserve_format)
                    where.append((p, key))
        return where

    def _state_at(self, parameter: torch.Tensor) -> Dict[str, Any]:
        """Asked for anew each time: load_state_dict makes other dictionaries."""
        assert self._optimizer is not None
        state: Dict[str, Any] = self._optimizer.state[parameter]
        return state

    def _hold_state(self) -> None:
        """The optimiser's state is the peer's, also where load_state_dict has put another in its place."""
        for number, (held, (p, key)) in enumerate(zip(self._kept, self._own_state)):
            state, known = self._state_at(p), self._known_state[number]
            value = state.get(key)
            if value is None:  # as before the first step
                held.zero_()
                state[key] = known.zero_()
            elif value.device.type != "cpu":
                if value is not known:
                    held.copy_(value)
                elif self._by_mean:
                    value.copy_(held)
                self._known_state[number] = value
            elif value is not known:
                if value.data_ptr() != held.data_ptr():
                    held.copy_(value)
                state[key] = self._known_state[number] = held

    def _tell_state(self) -> None:
        """Of devices: where steps go by the mean, whoever comes later needs it."""
        for held, value in zip(self._kept, self._known_state):
            if self._by_mean and value.device.type != "cpu":
                held.copy_(value)


def _all_finite(optimizer: torch.optim.Optimizer) -> bool:
    """All gradients that it would step by; devices are waited for once."""
    sums = [(p.grad.coalesce().values() if p.grad.is_sparse else p.grad).detach().sum(dtype=torch.float32)
            for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    return all(bool(torch.stack([one for one in sums if one.device == device]).isfinite().all()) for device in {one.device for one in sums})


def _uses(group: Dict[str, Any], key: str) -> bool:
    if key == "momentum_buffer":
        return bool(group["momentum"] != 0)
    return bool(group["amsgrad"]) if key == "max_exp_avg_sq" else True


def _can_keep(optimizer: torch.optim.Optimizer) -> bool:
    """What it keeps is zeros at first, as if it had taken a step of zeros; so it is not where the first step is another one than the rest."""
    return type(optimizer) in _KEPT and all(group.get("dampening", 0) == 0 for group in optimizer.param_groups)


def _rows_in(batch: object) -> Optional[int]:
    """The first dimension of the first tensor or array in it; None: there is none."""
    if isinstance(batch, (torch.Tensor, numpy.ndarray)):
        return int(batch.shape[0]) if batch.ndim > 0 else None
    if dataclasses.is_dataclass(batch):
        batch = [getattr(batch, field.name) for field in dataclasses.fields(batch)]
    parts: Iterable[object] = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, (list, tuple)) else ()
    return next((rows for rows in map(_rows_in, parts) if rows is not None), None)


Loss = Callable[[torch.nn.Module, Any], torch.Tensor]


def simulate(job: Path, model: torch.nn.Module, data: "torch.utils.data.Dataset[Any]", loss: Loss, *, peers: int = 0,
             labels: Optional[numpy.typing.ArrayLike] = None, statistics: bool = True, settings: Sequence[str] = (), seed: int = 1,
             before: Optional[Callable[[int, int], None]] = None, report: Optional[Callable[[int, float, Report], None]] = None) -> Simulated:
    """All peers of the job in one process and in virtual time, each with that model from where it stands, on a simulated network (``[sim]``).

    Parameters
    ----------
    job, model, labels, statistics, settings
        As of :func:`join`; the job's optimiser steps.
    data : torch.utils.data.Dataset
        Of all peers together; a batch is what ``default_collate`` makes of its rows.
    loss : callable
        ``loss(model, batch)`` is the mean over the batch.
    peers, seed, report
        As of :func:`gossamer.simulate`.
    before : callable, optional
        ``before(peer, step)`` is called before each gradient: to seed what is random in it.

    Returns
    -------
    gossamer.Simulated
        With each peer's parameters and statistics by name. The model is left as it was.
    """
    tensors, starts = _tensors_of(_plain(model), statistics)
    own = [(tensor, tensor.data, tensor.grad) for _, tensor in tensors]
    count = len(data)  # type: ignore[arg-type]
    if count == 0:
        raise _errors.BadInput("the data has no rows; expected at least one")
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]

    def gradient(peer: int, step: int, rows: "numpy.typing.NDArray[numpy.uint32]", x: Dict[str, Array], g: Dict[str, Array]) -> Tuple[float, int]:
        for (name, tensor), start in zip(tensors, starts):
            tensor.data = torch.from_numpy(x[name])
            if not start.state:
                tensor.grad = torch.from_numpy(g[name])
        if before is not None:
            before(peer, step)
        value = loss(model, torch.utils.data.default_collate([data[int(row)] for row in rows]))
        value.backward()  # type: ignore[no-untyped-call]
        return float(value.detach()), len(rows)

    try:
        return simulate_arrays(job, starts, gradient, peers=peers, rows=count, labels=labels, settings=settings, seed=seed, report=report)
    finally:
        for tensor, values, grad in own:
            tensor.data, tensor.grad = values, grad
        for buffer, values in buffers:  # counters, and what each peer would have of its own
            if not torch.equal(buffer, values):
                buffer.copy_(values)


def load(path: Path) -> Dict[str, torch.Tensor]:
    """What :meth:`Peer.save` wrote, or another safetensors file, for ``model.load_state_dict``."""
    return _safetensors.load(path)


def join(job: Path, model: torch.nn.Module, optimizer: Optional[torch.optim.Optimizer] = None, *, rows: int = 0,
         labels: Optional[numpy.typing.ArrayLike] = None, statistics: bool = True, name: Optional[str] = None, settings: Sequence[str] = (),
         steps_per_epoch: int = 0, checkpoints: Optional[Path] = None, resume: Optional[Path] = None, join: Optional[str] = None,
         address: Optional[str] = None, session: int = 0, log: Optional[Path] = None, state: Mapping[str, Any] = types.MappingProxyType({})) -> Peer:
    """Join the job's other peers, and return when all are there and the first round's parameters stand in the model.

    Parameters
    ----------
    job : path
        The job file; its ``[model]`` and ``[data]`` are not used.
    model : torch.nn.Module
        Its parameters that require a gradient are what is learned: of type float32. All peers begin with those of the job's first peer, or of
        the run under way that this one joins; with those of the file that the job's ``model.initial`` names, where it does. Frozen parameters
        and other buffers are never exchanged: they must be the same on every peer, from one file or one seed. Peers whose frozen parameters differ
        are refused; a newcomer with an optimiser of its own whose buffers are others than the run's is warned.
    optimizer : torch.optim.Optimizer, optional
        The loop's own, over those parameters, the same on every peer; ``[optimizer]`` is then not read but for the batch. Where the
        method averages gradients (allreduce …) it steps by the mean of all, which is zeros where no peer has a gradient: weight decay and momentum
        go on there, where torch alone leaves such a parameter as it is (requires_grad_(False) before the join does, too). Else it steps by the
        peer's own. None: the job's.
    rows : int, optional
        Of the data, for all peers together; what :meth:`Peer.sampler` deals out. 0: the loop sees to its data.
    labels : array of int, optional
        Of the rows, from 0 on, which some splits read (``dirichlet``).
    statistics : bool
        Running means and variances of batch normalisations are averaged, too, as the batches make them; False: they are each peer's.
    name, settings, steps_per_epoch, checkpoints, resume, join, address, session, log
        As of :class:`gossamer.Peer`.
    state : mapping of str to object, optional
        What else checkpoints are to hold, as each step leaves it: things with ``state_dict`` and ``load_state_dict``, such as schedulers and
        scalers. Checkpoints always hold parameters, the optimiser's state (SGD's, Adam's and AdamW's as it is, others' copied in every step), the
        generators of torch, NumPy and Python, and the place in the data. Who takes part later takes over, as the others' last step left them, the
        numbers of the optimiser's groups (``lr`` …) and those in the state of its schedulers: of these, and of what :meth:`Peer.step` is given.
        All else is each peer's own.

    Raises
    ------
    BadInput
        The job, the model or a combination cannot be used; the peers' models have other layers.
    PeerLost
        Not all came within ``run.join_timeout``.
    """
    return Peer(job, model, optimizer, statistics,
                Settings(name=name, settings=settings, rows=rows, labels=labels, steps_per_epoch=steps_per_epoch, checkpoints=checkpoints,
                         resume=resume, join=join, address=address, session=session, log=log), state)
