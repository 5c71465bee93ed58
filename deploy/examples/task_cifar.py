"""A convolutional network on CIFAR-10's binary files, as a task: model, data and loss, and no loop.

    gossamer run deploy/examples/task-cifar.toml
    gossamer sim deploy/examples/task-cifar.toml --peers 16 --bandwidth 100mbit

CIFAR names a folder with cifar_train_8000.bin.gz and cifar_test_2000.bin.gz, or data_batch_1.bin and test_batch.bin.
"""
import gzip
import os
import pathlib

import numpy
import torch
from torch import nn
from torch.nn import functional

FOLDER = pathlib.Path(os.environ.get("CIFAR", pathlib.Path(__file__).parents[3] / "shared" / "data" / "cifar10-subset"))


def rows(*names):
    found = [FOLDER / name for name in names if (FOLDER / name).exists()]
    if not found:
        raise SystemExit(f"{FOLDER} has neither {' nor '.join(names)}; CIFAR=FOLDER names another one")
    raw = found[0].read_bytes()
    rows = numpy.frombuffer(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw, dtype=numpy.uint8).reshape(-1, 3073)
    images = torch.tensor(rows[:, 1:].reshape(-1, 3, 32, 32), dtype=torch.float32) / 127.5 - 1
    return torch.utils.data.TensorDataset(images, torch.tensor(rows[:, 0], dtype=torch.int64))


class Task:
    def model(self):
        return nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Dropout(0.1),
            nn.Linear(1024, 40), nn.ReLU(), nn.Linear(40, 10))

    def data(self):
        return rows("cifar_train_8000.bin.gz", "data_batch_1.bin"), rows("cifar_test_2000.bin.gz", "test_batch.bin")

    def labels(self, train):
        return train.tensors[1]

    def loss(self, model, batch):
        return functional.cross_entropy(model(batch[0]), batch[1])

    def figures(self, model, batch):
        return {"accuracy": (model(batch[0]).argmax(1) == batch[1]).float().mean().item()}
