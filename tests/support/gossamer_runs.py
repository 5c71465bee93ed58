"""What the scripts in this folder share: running the program and reading the JSON that it prints."""
import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Refused(Exception):
    """The program refused the combination; its message."""


class Failed(SystemExit):
    """The program ended with another status; its command line and message. Ends the script where nobody catches it."""


def run_json(gossamer, command, job, sets, flags=()):
    """One run or simulation in a folder of its own that is removed afterwards; the object that --json prints."""
    with tempfile.TemporaryDirectory() as folder:
        line = [str(pathlib.Path(gossamer).resolve()), command, str(job), "--json", "--quiet", *flags]
        for s in sets:
            line += ["--set", s]
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True)
    if done.returncode == 2:
        raise Refused(done.stderr.strip())
    if done.returncode != 0:
        raise Failed(f"{' '.join(line)}\nended with status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)
