"""Peers as processes: what they report and say on standard error, with the time at which it came."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time


def free_ports(count, first=28600):
    """The first of so many consecutive ones."""
    for port in range(first, 60000, count):
        try:
            for p in range(port, port + count):
                with socket.socket() as s:
                    s.bind(("127.0.0.1", p))
            return port
        except OSError:
            continue
    raise SystemExit("found no free ports")


class Quota:
    """A share of a processor that a process may take, by a control group, until close; `there` where this machine lets one make these."""

    def __init__(self, pid, share, period_us=100000):
        self.pid, self.there = pid, False
        self.group = pathlib.Path(f"/sys/fs/cgroup/cpu/gossamer-{os.getpid()}-{pid}")
        try:
            self.group.mkdir()
            (self.group / "cpu.cfs_period_us").write_text(str(period_us))
            (self.group / "cpu.cfs_quota_us").write_text(str(max(1000, round(period_us * share))))
            (self.group / "cgroup.procs").write_text(str(pid))
            self.there = True
        except OSError:
            self.close()

    def close(self):
        try:
            (self.group.parent / "cgroup.procs").write_text(str(self.pid))
        except OSError:
            pass  # it has ended
        try:
            self.group.rmdir()
        except OSError:
            pass


class Peer:
    """One start of `gossamer peer`; before: words that come before the program."""

    def __init__(self, program, job, name, out, before=()):
        self.name, self.reports, self.lines, self.result = name, [], [], None
        self.process = subprocess.Popen([*before, program, "peer", str(job), "--name", name, "--records", "--session", "7", "--out", str(out)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        threading.Thread(target=self._read_reports, daemon=True).start()
        threading.Thread(target=self._read_lines, daemon=True).start()

    def _read_reports(self):
        for line in self.process.stdout:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if record.get("event") == "report":
                self.reports.append((time.monotonic(), record))
            elif record.get("event") == "result":
                self.result = record

    def _read_lines(self):
        for line in self.process.stderr:
            self.lines.append((time.monotonic(), line.rstrip()))

    def rounds(self):
        """(time, round) of its reports, ascending."""
        return [(at, r["round"]) for at, r in list(self.reports)]

    def rounds_per_second(self, begin, end):
        """Between the first and the last report of that time; 0 where there are fewer than two."""
        seen = [(at, r) for at, r in self.rounds() if begin <= at <= end]
        if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
            return 0.0
        return (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0])

    def said(self, pattern, since=0.0):
        """When it first said something that matches, after that time; None: it has not."""
        for at, line in list(self.lines):
            if at >= since and re.search(pattern, line):
                return at
        return None


class Cluster:
    """Peers peer0 … of a job; where a `with` ends they are ended."""

    def __init__(self, program, folder, job, peers, before=lambda index: ()):
        self.folder = pathlib.Path(folder)
        self.job = self.folder / "job.toml"
        self.job.write_text(job)
        self.program, self.before = program, before
        self.names = [f"peer{i}" for i in range(peers)]
        self.peers = {}

    def __enter__(self):
        for index, name in enumerate(self.names):
            self.peers[name] = Peer(self.program, self.job, name, self.folder / "models", self.before(index))
        return self

    def __exit__(self, *_):
        for peer in self.peers.values():
            if peer.process.poll() is None:
                peer.process.send_signal(signal.SIGCONT)
                peer.process.send_signal(signal.SIGTERM)
        for peer in self.peers.values():
            try:
                peer.process.wait(15)
            except subprocess.TimeoutExpired:
                peer.process.kill()
                peer.process.wait()

    def __getitem__(self, name):
        return self.peers[name]

    def __iter__(self):
        return iter(self.peers.values())

    def wait(self, what, condition, seconds):
        """Until the condition holds; ends the program with what was said where it does not in that time."""
        until = time.monotonic() + seconds
        while not condition():
            ended = [p.name for p in self if p.process.poll() is not None]
            if time.monotonic() > until or ended:
                for peer in self:
                    print(f"--- {peer.name}\n" + "\n".join(line for _, line in peer.lines[-8:]))
                raise SystemExit(f"{', '.join(ended)} ended" if ended else f"waited {seconds:.0f} s for {what}")
            time.sleep(0.02)

    def train(self, seconds=60):
        self.wait("reports of all peers", lambda: all(len(p.reports) > 1 for p in self), seconds)
