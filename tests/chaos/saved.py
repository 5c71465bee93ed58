"""What the scripts beside this one share: the program that writes checkpoints, and what `gossamer checkpoint` says of them."""
import argparse
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def arguments(description, *more):
    """more: (flag, default) of further whole numbers."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--seed", type=int, default=1)
    for flag, default in more:
        parser.add_argument(flag, type=int, default=default)
    return parser.parse_args()


class Saved:
    """A folder of checkpoints that write_loop writes."""

    def __init__(self, build, folder, size):
        self.gossamer, self.writer = str(build / "gossamer"), str(build / "write_loop")
        self.folder, self.size = pathlib.Path(folder), size

    def writing(self, *words):
        return [self.writer, str(self.folder), "--bytes", str(self.size), *words]

    def write(self, rounds):
        return subprocess.run(self.writing("--rounds", str(rounds)), capture_output=True, text=True)

    def call(self, command, *words):
        return subprocess.run([self.gossamer, "checkpoint", command, str(self.folder), *words], capture_output=True, text=True)

    def listed(self):
        """Rounds by number; and why manifests could not be read."""
        done = self.call("list", "--json")
        if done.returncode == 2 and ("holds no checkpoints" in done.stderr or "no such folder" in done.stderr):
            return {}, []
        if done.returncode != 0:
            raise SystemExit(f"list ended with {done.returncode}: {done.stderr}")
        answer = json.loads(done.stdout)
        return {r["round"]: r for r in answer["rounds"]}, answer["problems"]

    def wrong_with(self, committed):
        """What is not as it must be where that round was committed (0: none); empty where all is. A later round may be complete too,
        where the writer was killed before it could say so; two such, and the committed one need not be there any more."""
        rounds, problems = self.listed()
        complete = [number for number, r in rounds.items() if r["complete"]]
        if problems:
            return f"problems: {problems}"
        if max(complete, default=0) < committed:
            return f"round {committed} was committed, and these are complete: {complete}"
        if not complete:
            return ""
        verified = self.call("verify")
        if verified.returncode != 0:
            return f"verify ended with {verified.returncode}: {verified.stderr}"
        read = [subprocess.run(self.writing("--check", str(number)), capture_output=True, text=True) for number in complete]
        return "".join(done.stderr for done in read)

    def files(self):
        return sorted(p for p in self.folder.rglob("*") if p.is_file())


def newest_committed(text):
    lines = [line.split() for line in text.splitlines() if line.startswith("committed ")]
    return int(lines[-1][1]) if lines else 0
