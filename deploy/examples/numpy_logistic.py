#!/usr/bin/env python3
"""Softmax regression on Fashion-MNIST in NumPy, four peers, each with a quarter of the images:

  for p in 0 1 2 3; do RANK=$p python3 deploy/examples/numpy_logistic.py & done; wait

Lines with an arrow are what makes a loop of one's own a peer."""
import gzip
import os
import pathlib
import sys

import numpy

import gossamer  # <-

PEERS, BATCH, RANK = 4, 64, int(os.environ["RANK"])
JOB = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("fashion-ring.toml")
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


def read(what):
    images = numpy.frombuffer(gzip.open(DATA / f"{what}-images-idx3-ubyte.gz").read(), numpy.uint8, offset=16).reshape(-1, 784)
    labels = numpy.frombuffer(gzip.open(DATA / f"{what}-labels-idx1-ubyte.gz").read(), numpy.uint8, offset=8)
    return ((images / 255 - 0.286) / 0.353).astype(numpy.float32), labels


images, labels = (part[RANK::PEERS] for part in read("train"))
random = numpy.random.default_rng(RANK)
start = {"weight": numpy.zeros((784, 10)), "bias": numpy.zeros(10)}
with gossamer.Peer(JOB, start, settings=sys.argv[2:], steps_per_epoch=len(labels) // BATCH) as peer:  # <-
    for x in peer.rounds():  # <-
        rows = random.integers(len(labels), size=BATCH)
        scores = images[rows] @ x["weight"] + x["bias"]
        scores -= scores.max(axis=1, keepdims=True)
        error = numpy.exp(scores) / numpy.exp(scores).sum(axis=1, keepdims=True)
        loss = -numpy.log(error[range(BATCH), labels[rows]]).mean()
        error[range(BATCH), labels[rows]] -= 1
        peer.gradients["weight"][:] = images[rows].T @ error / BATCH  # <-
        peer.gradients["bias"][:] = error.mean(axis=0)  # <-
        peer.post(loss, BATCH)  # <-
    test_images, test_labels = read("t10k")
    right = (test_images @ x["weight"] + x["bias"]).argmax(axis=1) == test_labels
    print(f"{peer.name}: {100 * right.mean():.2f} % of the test images after {peer.report.round} rounds")
