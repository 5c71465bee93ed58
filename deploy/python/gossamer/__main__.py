"""Tasks: PyTorch models, data and losses that stand in a file, as peers, simulated, and evaluated; ``gossamer`` starts this for jobs with
``model.kind = "python"``.

A task file has a class ``Task``; its methods:

``model()``
    The ``torch.nn.Module`` that is trained, the same at each call after the same ``torch.manual_seed``.
``data()``
    Two ``torch.utils.data.Dataset``: to train on, the rows of all peers together, and to test.
``loss(model, batch)``
    Mean over the batch, which is what ``default_collate`` makes of rows.
``labels(train)``, optional
    A class for each row, from 0 on, for ``data.split = "dirichlet:…"``.
``figures(model, batch)``, optional
    What an evaluation tells of a batch: a dict of means over it (``{"accuracy": …}``), beside the loss.
"""
import argparse
import hashlib
import importlib.util
import json
import os
import pathlib
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

import torch

from . import _errors, _safetensors
from . import torch as peers
from ._base import Report

_TEST_BATCH = 500


def _task(path: str) -> Any:
    file = pathlib.Path(path).resolve()
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise _errors.BadInput(f"{path}: found no such Python file; expected one with a class Task (model.file)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # workers that load data find it there
    sys.path.insert(0, str(file.parent))
    spec.loader.exec_module(module)
    kind = getattr(module, "Task", None)
    missing = [name for name in ("model", "data", "loss") if not callable(getattr(kind, name, None))]
    if kind is None or missing:
        raise _errors.BadInput(f"{path}: found no class Task with {', '.join(missing) if kind is not None else 'model, data and loss'}; expected model(), "
                               "data() and loss(model, batch)")
    return kind()


def _seed(seed: int, peer: str, step: int) -> None:
    """What is random in a peer's step depends on these alone."""
    torch.manual_seed(int.from_bytes(hashlib.blake2b(repr((seed, peer, step)).encode(), digest_size=8).digest(), "little") >> 1)


class _Learned:
    """A task with its model where all peers begin."""

    def __init__(self, options: argparse.Namespace):
        torch.set_num_threads(options.threads)
        self.task = _task(options.task)
        torch.manual_seed(options.seed)
        self.model: torch.nn.Module = self.task.model()
        self.train, self.test = self.task.data()
        self.labels = self.task.labels(self.train) if hasattr(self.task, "labels") else None

    def evaluate(self) -> Dict[str, float]:
        """Means over the test rows."""
        sums: Dict[str, float] = {}
        rows = 0
        self.model.eval()
        with torch.no_grad():
            for first in range(0, len(self.test), _TEST_BATCH):
                numbers = range(first, min(first + _TEST_BATCH, len(self.test)))
                batch = torch.utils.data.default_collate([self.test[row] for row in numbers])
                figures = {"loss": float(self.task.loss(self.model, batch))}
                if hasattr(self.task, "figures"):
                    figures.update(self.task.figures(self.model, batch))
                for name, value in figures.items():
                    sums[name] = sums.get(name, 0.0) + float(value) * len(numbers)
                rows += len(numbers)
        self.model.train()
        return {name: total / rows for name, total in sums.items()}


def _text(figures: Dict[str, float]) -> str:
    return ", ".join(f"{name} {100 * value:.2f} %" if name == "accuracy" else f"{name} {value:.4f}" for name, value in figures.items())


def _peer(options: argparse.Namespace) -> None:
    learned = _Learned(options)
    model, task = learned.model, learned.task
    with peers.join(options.job, model, None, rows=len(learned.train), labels=learned.labels, name=options.name, settings=options.set,
                    join=options.join, address=options.address, checkpoints=options.checkpoints, resume=options.resume,
                    session=options.session) as peer:
        loader = torch.utils.data.DataLoader(learned.train, batch_sampler=peer.sampler())
        for batch in peer.batches(loader):
            _seed(options.seed, peer.name, peer.step_number)
            model.zero_grad(set_to_none=False)
            loss = task.loss(model, batch)
            loss.backward()
            peer.step(loss)
        if options.out:
            peer.save(pathlib.Path(options.out, f"{peer.name}.safetensors"))
        print(f"{peer.name}: {_text(learned.evaluate())} on {len(learned.test)} test rows", flush=True)


def _simulate(options: argparse.Namespace) -> None:
    learned = _Learned(options)
    names = options.names.split(",") if options.names else None

    def before(peer: int, step: int) -> None:
        _seed(options.seed, names[peer] if names else f"peer{peer}", step)

    def report(peer: int, seconds: float, report: Report) -> None:
        if peer == 0 and not options.quiet:
            print(f"{seconds:.2f} s virtual  round {report.round}  {100 * report.share_done:.0f} % done  loss {report.loss:.4f}", file=sys.stderr)

    result = peers.simulate(options.job, learned.model, learned.train, learned.task.loss, peers=options.peers, labels=learned.labels,
                            settings=options.set, seed=options.network_seed, before=before, report=report)
    failed = [peer.error for peer in result.peers if peer.error is not None]
    there = [peer for peer in result.peers if peer.error is None] or result.peers
    tensors, _ = peers._tensors_of(learned.model, True)
    for name, tensor in tensors:
        tensor.data = torch.from_numpy(sum(peer.parameters[name].astype("float64") for peer in there) / len(there)).float()
    figures = learned.evaluate()
    told = {"peers": len(result.peers), "virtual_seconds": result.seconds, "digest": f"{result.digest:016x}", "test": figures,
            "rounds": [peer.rounds for peer in result.peers], "train_loss": [peer.loss for peer in result.peers],
            "bytes_out": [peer.bytes_out for peer in result.peers]}
    if options.json:
        print(json.dumps(told))
    else:
        print(f"{len(result.peers)} peers, {result.seconds:.2f} s virtual, digest {result.digest:016x}")
        print(f"mean model: {_text(figures)} on {len(learned.test)} test rows")
        print(f"bytes out per peer: {sum(peer.bytes_out for peer in result.peers) / len(result.peers) / 1e6:.2f} MB")
    if failed and len(failed) == len(result.peers):
        raise failed[0]


def _outline(options: argparse.Namespace) -> None:
    """What the model is, and how long a step takes, for whoever started this: on the descriptor that it names, else printed."""
    learned = _Learned(options)
    tensors, _ = peers._tensors_of(learned.model, True)
    rows = [learned.train[row] for row in range(min(options.batch, len(learned.train)))]
    taken = []
    for _ in range(5):
        begin = time.perf_counter()
        learned.model.zero_grad()
        learned.task.loss(learned.model, torch.utils.data.default_collate(rows)).backward()
        taken.append(time.perf_counter() - begin)
    told = json.dumps({"tensors": [[name, tensor.numel()] for name, tensor in tensors], "rows": len(learned.train), "step_seconds": sorted(taken)[2]})
    if "GOSSAMER_RECORDS" in os.environ:
        os.write(int(os.environ["GOSSAMER_RECORDS"]), told.encode() + b"\n")
    else:
        print(told)


def _evaluate(options: argparse.Namespace) -> None:
    learned = _Learned(options)
    all_tensors = [_safetensors.load(path) for path in options.models]
    mean = {name: torch.stack([tensors[name].double() for tensors in all_tensors]).mean(0).to(first.dtype) for name, first in all_tensors[0].items()}
    learned.model.load_state_dict(mean, strict=False)
    figures = learned.evaluate()
    print(json.dumps(figures) if options.json else f"{_text(figures)} on {len(learned.test)} test rows")


def _options(words: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m gossamer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, does, call in (("peer", "train as one peer of the job", _peer), ("sim", "train all peers on a simulated network", _simulate),
                             ("evaluate", "test models, or the mean of several", _evaluate), ("outline", "say what the model is", _outline)):
        command = commands.add_parser(name, help=does)
        command.set_defaults(call=call)
        command.add_argument("job")
        command.add_argument("--task", required=True, help="the file with a class Task")
        command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
        command.add_argument("--seed", type=int, default=1, help="of the initial parameters, and of what is random in a step (run.seed)")
        command.add_argument("--threads", type=int, default=1, help="that compute")
        if name == "peer":
            for flag in ("--name", "--join", "--address", "--checkpoints", "--resume", "--out"):
                command.add_argument(flag)
            command.add_argument("--session", type=int, default=0)
            continue
        if name == "outline":
            command.add_argument("--batch", type=int, default=64)
            continue
        command.add_argument("--json", action="store_true")
        if name == "evaluate":
            command.add_argument("models", nargs="+")
            continue
        command.add_argument("--network-seed", type=int, default=1, help="of faults and times")
        command.add_argument("--peers", type=int, default=0)
        command.add_argument("--names", help="of the peers, commas between, where they are not peer0, peer1 …")
        command.add_argument("--quiet", action="store_true")
    return parser.parse_args(words)


def main(words: Optional[List[str]] = None) -> int:
    """Runs a command; its exit status."""
    options = _options(words)
    try:
        options.call(options)
    except _errors.BadInput as error:
        print(f"gossamer: {error}", file=sys.stderr)
        return 2
    except _errors.PeerLost as error:
        print(f"gossamer: {error}", file=sys.stderr)
        return 3
    except (_errors.Interrupted, KeyboardInterrupt) as error:
        print(f"gossamer: interrupted{f': {error}' if str(error) else ''}", file=sys.stderr)
        return 130
    except _errors.GossamerError as error:
        print(f"gossamer: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
