"""A campaign in a directory of its own, run through the real Snakefile as a user runs it."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import yaml

import locks
from iosweep import dag
from iosweep.files import documents
from iosweep.plan.model import plan_from_document

ROOT = Path(__file__).resolve().parents[2]
#: Nothing of ours takes longer, on a machine that is busy with other tests. What is waited for and comes costs nothing.
PATIENCE_S = 600

#: Two points of two phases, two repetitions each: about 0.4 s a phase, nearly all of it fio's start-up.
SMALL = {
    "name": "small",
    "tool": "fio",
    "phases": ["seq_write", "rand_read"],
    "axes": {"transfer_size": ["4k", "16k"]},
    "options": {"file_size": "1m"},
    "phase_time": "100ms",
    "repetitions": 2,
}


class Campaign:
    """`place` is the working directory: configuration, results and target are all below it."""

    def __init__(self, place: Path, **sweep):
        self.place = place
        self.name = "tiny"
        self.results = place / "results" / self.name
        self.target = place / "target"
        self.target.mkdir(parents=True, exist_ok=True)
        self.file = place / "sweep.yaml"
        self.lock = locks.own()
        self.configure(**sweep)

    def configure(self, **sweep):
        """Write the configuration: SMALL, with these keys changed."""
        document = {
            "campaign": self.name,
            "target": {"directory": str(self.target), "lock": self.lock},
            # a busy machine must not add to what the tests count, nor a full disk take away
            "limits": {"retried": "0%", "fill": "100%"},
            "tools": {"provider": "path"},
            "sweeps": [SMALL | sweep],
        }
        self.file.write_text(yaml.safe_dump(document))

    @property
    def environment(self):
        return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def command(self, *arguments):
        snakemake = Path(sys.executable).with_name("snakemake")
        return [
            str(snakemake), "-s", str(ROOT / "Snakefile"), "-d", str(self.place),
            "--profile", str(ROOT / "profiles/local"), "--configfile", str(self.file), *arguments,
        ]  # fmt: skip

    def snakemake(self, *arguments, env=None, code=0):
        """Run to its end; returns what it printed."""
        done = subprocess.run(
            self.command(*arguments), env=env or self.environment, cwd=self.place, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert code is None or done.returncode == code, done.stdout
        return done.stdout

    def dry(self, *arguments):
        return self.snakemake("-n", *arguments)

    def left(self):
        """Allocation -> what is left of it, as the Snakefile learns it, without the two seconds of a dry run."""
        return dag.load(self.file, self.results.parent, "mpiexec").left

    def settled(self):
        """Whether nothing would be run up to the tables. (`--until` never says "Nothing to be done".)"""
        output = self.dry("--until", "merge")
        return not re.search(r"^(Job \d+|rule|localrule)\b", output, re.MULTILINE)

    def run(self, *arguments, **options):
        """Everything but SVG and PNG, which take longer than the rest."""
        return self.snakemake(*arguments, "--until", "report", **options)

    def tables(self, *arguments, **options):
        """No page either: with its library of figures it takes as long as all that a small campaign measures."""
        return self.snakemake(*arguments, "--until", "merge", **options)

    def iosweep(self, *arguments, code=0):
        done = subprocess.run(
            [sys.executable, "-m", "iosweep", *arguments], cwd=self.place, env=self.environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert code is None or done.returncode == code, done.stdout
        return done.stdout

    def plan(self):
        """Write the plan as the rule does; returns its file and the name of its only allocation."""
        document = json.loads(self.iosweep("plan", "--json", str(self.file)))["plan"]
        made = plan_from_document(documents.dump(document))
        file = self.results / "plans" / f"{made.digest}.json"
        self.iosweep("plan", "--write", str(file), str(self.file))
        return file, made.allocations[0].name

    def measure_command(self, plan_file, allocation):
        return [
            sys.executable, "-m", "iosweep", "measure", str(plan_file), "--allocation", allocation,
            "--manifest", str(self.results / "manifests" / "test.jsonl"), "--log", str(self.results / "test.log"),
        ]  # fmt: skip

    def stored(self):
        """(point, file name) -> bytes of everything below points/."""
        return {
            (file.parent.name, file.name): file.read_bytes()
            for file in (self.results / "points").glob("*/*")
            if not file.name.startswith(".")
        }

    def repetitions(self):
        """(point, file) of the committed results."""
        return {(p, n) for p, n in self.stored() if re.fullmatch(r"r\d+-\d+\.json", n)}


def wait_for(condition, seconds=PATIENCE_S, over=lambda: None, pause_s=0.02):
    """Wait until something is so, and return it; fails after a long while. `over`: what has ended says, or None while
    it lives: then there is nothing more to wait for."""
    end = time.monotonic() + seconds
    while True:
        last = over()  # first: it may do what is waited for, and end
        if value := condition():
            return value
        assert last is None, f"what was waited for has ended: {last}"
        assert time.monotonic() < end, "waited in vain"
        time.sleep(pause_s)


def over(process):
    """For `wait_for`: what a process says (if we read it), once it has ended."""

    def last():
        if process.poll() is None:
            return None
        said = [part for part in (process.communicate() if process.stdout or process.stderr else ()) if part]
        return f"exit code {process.returncode} {said}"

    return last
