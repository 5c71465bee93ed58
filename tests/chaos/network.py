"""Hosts of one machine: network namespaces on a bridge, whose links may be as slow as is asked for."""
import os
import subprocess

SKIPPED = 77
LARGEST_SEGMENT = 65536


def ip(*words, space=None):
    subprocess.run(["ip", *(["-n", space] if space else []), *words], check=True, capture_output=True, text=True)


class Network:
    """So many namespaces, at front.1, front.2, …; while a `with` lasts. Without the privilege to make them the script ends, with 77."""

    def __init__(self, nodes, front):
        self.nodes, self.front, self.names = nodes, front, f"gs{os.getpid()}"

    def name(self, index):
        return f"{self.names}-{index}"

    def address(self, index):
        return f"{self.front}.{index + 1}"

    def before(self, index):
        """Words that come before a program which is to run there."""
        return "ip", "netns", "exec", self.name(index)

    def __enter__(self):
        try:
            switch = self.name("s")
            ip("netns", "add", switch)
            ip("link", "add", "br0", "type", "bridge", space=switch)
            ip("link", "set", "br0", "up", space=switch)
            for i in range(self.nodes):
                ip("netns", "add", self.name(i))
                ip("link", "add", "eth0", "type", "veth", "peer", "name", f"p{i}", "netns", switch, space=self.name(i))
                ip("addr", "add", f"{self.address(i)}/24", "dev", "eth0", space=self.name(i))
                ip("link", "set", "lo", "up", space=self.name(i))
                ip("link", "set", "eth0", "up", space=self.name(i))
                ip("link", "set", f"p{i}", "master", "br0", space=switch)
                ip("link", "set", f"p{i}", "up", space=switch)
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            print(f"skipped: no network namespaces here ({getattr(error, 'stderr', None) or error}); run it as root")
            raise SystemExit(SKIPPED)
        return self

    def __exit__(self, *_):
        for name in [self.name(i) for i in range(self.nodes)] + [self.name("s")]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def join(self, a, b):
        """What goes from one of them to the other, and back, goes over a wire of its own."""
        ip("link", "add", "own", "type", "veth", "peer", "name", "own", "netns", self.name(b), space=self.name(a))
        for i, other in ((a, b), (b, a)):
            ip("link", "set", "own", "up", space=self.name(i))
            ip("route", "add", f"{self.address(other)}/32", "dev", "own", space=self.name(i))
        self.ends = a, b

    def slow_down(self, rate):
        """That wire, both ways; None: as fast as it goes."""
        for i in self.ends:
            self._shape(self.name(i), "own", rate)

    def shape(self, rate):
        """What every host sends, and what it is sent; None: as fast as it goes."""
        for i in range(self.nodes):
            self._shape(self.name(i), "eth0", rate)
            self._shape(self.name("s"), f"p{i}", rate)

    def _shape(self, space, device, rate):
        words, most = ["del", "dev", device, "root"], LARGEST_SEGMENT
        if rate:  # a bucket of 1 ms: with a larger one a short message on an idle link would leave at once
            burst = max(4096, round(bits_per_second(rate) / 8000))
            most = min(most, burst)
            words = ["replace", "dev", device, "root", "tbf", "rate", rate, "burst", str(burst), "latency", "20ms"]
        # What does not fit into the bucket would be cut up by the processors, which a network card does by itself.
        ip("link", "set", device, "gso_max_size", str(most), space=space)
        done = subprocess.run(["tc", "-n", space, "qdisc", *words], capture_output=True, text=True)
        if done.returncode != 0 and rate:
            raise SystemExit(f"tc {' '.join(words)}: {done.stderr}")


def bits_per_second(rate):
    """Of tc's way to write them, such as 100mbit."""
    for unit, factor in (("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)):
        if rate.endswith(unit):
            return float(rate[:-len(unit)]) * factor
    raise SystemExit(f"rate {rate!r}: expected such as 500kbit, 100mbit or 1gbit")
