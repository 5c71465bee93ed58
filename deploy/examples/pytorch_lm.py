#!/usr/bin/env python3
"""A small transformer that learns characters of a text, as several peers; lines with an arrow are what makes an ordinary loop one.

    gossamer run JOB.toml -- python3 deploy/examples/pytorch_lm.py TEXT     # such as tinyshakespeare's input.txt

Every peer draws windows of its own from the first nine tenths of the text; the last tenth tests.
"""
import gzip
import math
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional

import gossamer.torch  # <-

WINDOW, WIDTH, HEADS, LAYERS, BATCH = 64, 64, 4, 2, 32


class Model(nn.Module):
    def __init__(self, characters):
        super().__init__()
        self.characters = nn.Embedding(characters, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(WINDOW, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS)
        self.norm = nn.LayerNorm(WIDTH)
        self.register_buffer("later", torch.full((WINDOW, WINDOW), -math.inf).triu(1))

    def forward(self, text):
        x = self.layers(self.characters(text) + self.places, mask=self.later)
        return functional.linear(self.norm(x), self.characters.weight)  # tied to the embedding


def windows(text, begins):
    return torch.stack([text[begin:begin + WINDOW + 1] for begin in begins])


def drawn(train, seed):
    """Batches without end."""
    draw = torch.Generator().manual_seed(seed)
    while True:
        yield windows(train, torch.randint(len(train) - WINDOW, (BATCH,), generator=draw).tolist())


def loss_of(model, batch):
    return functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def main(path):
    torch.set_num_threads(1)
    raw = pathlib.Path(path).read_bytes()
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    known = sorted(set(raw))
    text = torch.tensor([known.index(byte) for byte in raw])
    train, test = text[:len(text) * 9 // 10], text[len(text) * 9 // 10:]
    model = Model(len(known))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    with gossamer.torch.join("job.toml", model, optimizer, steps_per_epoch=len(train) // (WINDOW * BATCH)) as peer:  # <-
        for batch in peer.batches(drawn(train, sum(peer.name.encode()))):  # <-
            optimizer.zero_grad()
            loss = loss_of(model, batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            peer.step(loss)  # <-
        model.eval()
        with torch.no_grad():
            held_out = windows(test, range(0, len(test) - WINDOW - 1, 8 * WINDOW))
            bits = loss_of(model, held_out).item() / math.log(2)
        print(f"{peer.name}: {bits:.3f} bits a character of the last tenth")


if __name__ == "__main__":
    main(*sys.argv[1:])
