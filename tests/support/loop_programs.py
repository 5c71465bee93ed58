"""Programs with training loops of their own as the peers of a job: for the tests of the Python package."""
import os
import pathlib
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "chaos"))
from cluster import free_ports  # noqa: E402

SKIPPED = 77
# started in the background a shell's children ignore it, and so would those that a test interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)
JOB = """base_port = {port}
peers = {peers}
[graph]
kind = "full"
[optimizer]
learning_rate = 0.1
batch = {batch}
[exchange]
method = "{method}"
codec = "{codec}"
[run]
join_timeout = 30
report_every = 0.05
rounds = {rounds}
"""


def python_with(module, package):
    """A Python that has the module; ends the test as skipped where none has."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
            return python
    print(f"skipped: no Python here has {module} (Debian: {package})")
    sys.exit(SKIPPED)


class Programs:
    def __init__(self, build, folder, python, first_port):
        self.python, self.folder, self.port = python, folder, free_ports(4, first=first_port)
        self.gossamer = str(pathlib.Path(build).resolve() / "gossamer")
        self.environment = dict(os.environ, PYTHONPATH=str(ROOT / "deploy" / "python"), OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1",
                                GOSSAMER_LIBRARY=str(pathlib.Path(build).resolve() / "node" / "libgossamer.so"), PYTHONDONTWRITEBYTECODE="1")

    def job(self, **what):
        text = JOB.format(port=self.port, **{"peers": 2, "method": "dpsgd", "codec": "dense", "batch": 8, "rounds": 10**8, **what})
        pathlib.Path(self.folder, "job.toml").write_text(text)

    def start(self, program, *words, **environment):
        command = ["-c", program] if isinstance(program, str) else [str(program)]
        return subprocess.Popen([self.python, *command, "job.toml", *words], cwd=self.folder, env={**self.environment, **environment}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *words):
        """The program gossamer."""
        return subprocess.Popen([self.gossamer, *words], cwd=self.folder, env={**self.environment, "GOSSAMER_PYTHON": self.python}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, what, *programs, within=120):
        """What they print; none of them may end with anything but 0."""
        told = [program.communicate(timeout=within) for program in programs]
        expect(all(program.returncode == 0 for program in programs), f"{what}: ended with {[p.returncode for p in programs]}\n"
               + "\n".join(out + said for out, said in told))
        return [out for out, _ in told]


def expect(holds, what, *processes):
    if not holds:
        for process in processes:
            process.kill()
        sys.exit("\n".join([f"{pathlib.Path(sys.argv[0]).name}: {what}", *("".join(process.communicate()) for process in processes)]))


def read_until(process, words):
    for line in process.stdout:
        if words in line:
            return True
    return False
