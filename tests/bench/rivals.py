#!/usr/bin/env python3
"""One rank of what people use in Gossamer's place, PyTorch over Gloo; bench_against starts it and reads the line that rank 0 prints.

    rivals.py reduce BYTES SECONDS          torch.distributed.all_reduce, again and again: the median of its seconds, and with SGD's step behind it
    rivals.py train METHOD SEED STEPS EVERY SECONDS
        MLP 784-1024-1024-10 on Fashion-MNIST, batch 64 each: DistributedDataParallel (ddp), its hooks (fp16, powersgd) or parameters averaged
        every H steps (local_sgd_H); ends after STEPS or SECONDS; every EVERY steps (0: never) the accuracy of the mean model.

Environment: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, GLOO_SOCKET_IFNAME.
"""
import gzip
import json
import os
import pathlib
import statistics
import sys
import time

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
BATCH, RATE, MOMENTUM = 64, 0.05, 0.9
MEAN, SCALE = 0.286, 0.353
WARM_UP = 12  # steps that do not count, or the whole periods of local steps that they are in; PowerSGD begins after 10


def agreed(distributed, torch, value):
    """The first rank's."""
    shared = torch.tensor([float(value)], dtype=torch.float64)
    distributed.broadcast(shared, 0)
    return shared.item()


def reduce(size, seconds):
    import torch
    from torch import distributed
    floats, model, taken, begin, go_on = torch.empty(size // 4), torch.zeros(size // 4), [], time.perf_counter(), 1.0
    while go_on:
        floats.fill_(float(distributed.get_rank() + 1))
        distributed.barrier()
        start = time.perf_counter()
        distributed.all_reduce(floats)
        reduced, peers = time.perf_counter() - start, distributed.get_world_size()
        model.sub_(floats, alpha=RATE / peers)
        longest = torch.tensor([reduced, time.perf_counter() - start])
        distributed.all_reduce(longest, op=distributed.ReduceOp.MAX)
        if floats[0].item() != peers * (peers + 1) / 2 or floats[-1].item() != floats[0].item():
            sys.exit("the sum is wrong")
        taken.append(longest.tolist())
        go_on = agreed(distributed, torch, time.perf_counter() - begin < seconds or len(taken) < 4)
    alone, stepped = map(statistics.median, zip(*taken[1:]))
    return {"seconds": alone, "stepped": stepped, "times": len(taken) - 1}


def images(kind):
    import numpy
    with gzip.open(DATA / f"{kind}-images-idx3-ubyte.gz") as file:
        x = numpy.frombuffer(file.read(), numpy.uint8, offset=16).reshape(-1, 784).astype("float32")
    with gzip.open(DATA / f"{kind}-labels-idx1-ubyte.gz") as file:
        return (x / 255 - MEAN) / SCALE, numpy.frombuffer(file.read(), numpy.uint8, offset=8).astype("int64")


def mean_over_ranks(tensors, distributed):
    for tensor in tensors:
        distributed.all_reduce(tensor)
        tensor /= distributed.get_world_size()


def distributed_model(net, method):
    from torch import nn
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    if method == "powersgd":  # of version 1.13 the hook fails over Gloo where there are two buckets
        from torch import distributed
        distributed._DEFAULT_FIRST_BUCKET_BYTES = 64 << 20
    model = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True, bucket_cap_mb=64 if method == "powersgd" else 25)
    if method == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif method == "powersgd":
        model.register_comm_hook(powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=10), powerSGD_hook.powerSGD_hook)
    elif method != "ddp":
        sys.exit(f"no method {method!r}")
    return model


def train(method, seed, steps, every, seconds):
    import torch
    from torch import distributed, nn
    rank, peers = distributed.get_rank(), distributed.get_world_size()
    (x, y), (test_x, test_y) = ([torch.from_numpy(part.copy()) for part in images(kind)] for kind in ("train", "t10k"))
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    local_steps = int(method.rpartition("_")[2]) if method.startswith("local_sgd_") else 0
    period = max(local_steps, 4)
    warm_up = -(-WARM_UP // period) * period
    model = net if local_steps else distributed_model(net, method)
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM)
    draw = torch.Generator().manual_seed(seed)
    order, at = torch.randperm(len(x), generator=draw), 0

    def accuracy():
        own = [p.detach().clone() for p in net.parameters()]
        with torch.no_grad():
            if local_steps:
                mean_over_ranks([p.data for p in net.parameters()], distributed)
            right = sum((net(test_x[i:i + 1000]).argmax(1) == test_y[i:i + 1000]).sum().item() for i in range(0, len(test_x), 1000)) if rank == 0 else 0
            for parameter, value in zip(net.parameters(), own):
                parameter.copy_(value)
        return right / len(test_x)

    seen, taken, begin = [], [], time.perf_counter()
    for step in range(1, steps + 1):
        start = time.perf_counter()
        if at + peers * BATCH > len(x):
            order, at = torch.randperm(len(x), generator=draw), 0
        rows = order[at + rank * BATCH:at + (rank + 1) * BATCH]
        at += peers * BATCH
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
        if local_steps and step % local_steps == 0:
            flat = nn.utils.parameters_to_vector(net.parameters()).detach()
            mean_over_ranks([flat], distributed)
            nn.utils.vector_to_parameters(flat, net.parameters())
        taken.append(time.perf_counter() - start)
        if every and step % every == 0:
            seen.append((step, accuracy()))
        if step % period == 0 and step > warm_up and agreed(distributed, torch, time.perf_counter() - begin > seconds):
            break
    timed = taken[warm_up:] or taken
    return {"ms": 1000 * sum(timed) / len(timed), "steps": len(taken), "seen": seen}


def main():
    import torch
    from torch import distributed
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    what, *words = sys.argv[1:]
    if what == "reduce":
        found = reduce(int(words[0]), float(words[1]))
    else:
        found = train(words[0], int(words[1]), int(words[2]), int(words[3]), float(words[4]))
    if distributed.get_rank() == 0:
        print(json.dumps(found), flush=True)
    distributed.barrier()
    os._exit(0)  # what other threads of Gloo are at, nobody waits for


if __name__ == "__main__":
    main()
