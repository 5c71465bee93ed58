"""Peers that train one model together without a server, for training loops in Python.

>>> with gossamer.Peer("job.toml", {"w": numpy.zeros((784, 10))}, name="peer0") as peer:
...     while peer.wait():                       # the round's parameters stand
...         peer.gradients["w"][:] = ...         # at peer.parameters["w"]
...         peer.post(loss, rows=64)
...     peer.save("model.safetensors")
"""
from ._base import Report
from ._errors import BadInput, Diverged, Failed, GossamerError, Interrupted, Misuse, PeerLost
from ._library import version
from ._peer import Peer
from ._simulate import Simulated, SimulatedPeer, simulate

__version__ = version()
__all__ = ["BadInput", "Diverged", "Failed", "GossamerError", "Interrupted", "Misuse", "Peer", "PeerLost", "Report", "Simulated", "SimulatedPeer",
           "__version__", "simulate"]
