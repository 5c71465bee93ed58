#!/usr/bin/env python3
"""An ordinary PyTorch loop, and the lines (marked <--) by which it becomes one of several peers.

    pytorch_cifar.py JOB.toml TRAIN.bin TEST.bin        # files of CIFAR-10's binary version, also with gzip

Start it once for each peer of the job, with GOSSAMER_NAME=peer0, peer1 …
"""
import gzip
import sys

import numpy
import torch
from torch import nn
from torch.nn import functional

import gossamer.torch  # <--


def images(path):
    raw = open(path, "rb").read()
    rows = numpy.frombuffer(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw, dtype=numpy.uint8).reshape(-1, 3073)
    x = torch.tensor(rows[:, 1:].reshape(-1, 3, 32, 32), dtype=torch.float32) / 127.5 - 1
    return torch.utils.data.TensorDataset(x, torch.tensor(rows[:, 0], dtype=torch.int64))


def network():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(1024, 40), nn.ReLU(), nn.Linear(40, 10))


def accuracy(model, data):
    with torch.no_grad():
        right = [(model(x).argmax(1) == y).sum().item() for x, y in torch.utils.data.DataLoader(data, batch_size=500)]
    return sum(right) / len(data)


def main(job, train, test):
    torch.set_num_threads(1)
    train, test, model = images(train), images(test), network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    with gossamer.torch.join(job, model, optimizer, rows=len(train)) as peer:  # <-- waits for the others
        loader = torch.utils.data.DataLoader(train, batch_sampler=peer.sampler())  # <-- in place of batch_size and shuffle
        for x, y in peer.batches(loader):  # <-- in place of epochs and the loader alone
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            peer.step(loss)  # <-- in place of optimizer.step()
        print(f"{peer.name}: {100 * accuracy(model, test):.2f} % of {len(test)}")
        peer.save(f"{peer.name}.safetensors")  # <-- in place of torch.save


if __name__ == "__main__":
    main(*sys.argv[1:])
