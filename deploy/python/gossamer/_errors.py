"""What goes wrong, one class for each kind; the text says what was found and what was expected."""


class GossamerError(Exception):
    """Whatever a peer has to say against what was asked of it."""


class BadInput(GossamerError, ValueError):
    """A file, key, array or combination that cannot be used; peers that were not started for the same run."""


class PeerLost(GossamerError):
    """Another peer went away or never came, and the job says that the run ends with it."""


class Diverged(GossamerError):
    """The losses or parameters ran away."""


class Interrupted(GossamerError):
    """The run was told to end before its end."""


class Misuse(GossamerError, RuntimeError):
    """Calls in the wrong order, out of range, or in a forked child."""


class Failed(GossamerError):
    """Anything else: memory, sockets, the disk."""
