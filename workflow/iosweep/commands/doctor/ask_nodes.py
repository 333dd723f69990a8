"""Asks the nodes: one srun starts the probe on each. Nothing is left on them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import cast

from iosweep.commands.doctor.judge_nodes import Answers, Asked
from iosweep.commands.doctor.node_probe import Facts
from iosweep.errors import Unanswered
from iosweep.slurm import fan_out, query

#: Time limits in seconds: for answers of allocated nodes, and for their files to appear here.
ANSWER_S, SEEN_S = 60.0, 15.0
#: Minutes and MB that the probe asks for: little, so that it fits beside other jobs.
LITTLE = ("--time=1", "--mem=200")
#: Messages of srun that do not matter.
_CHATTER = re.compile(r"queued and waiting|has been allocated|^\s*$|Job step aborted|Waiting up to")


class NoNodes(Exception):
    """No node could be asked. `busy`: nodes are in use, so waiting helps."""

    def __init__(self, message: str, busy: bool = False):
        self.busy = busy
        super().__init__(message)


def command(a: Asked, options: Sequence[str], name: str, wait_s: float, wanted: str) -> list[str]:
    """The srun that starts the probe once on each node."""
    sources = (("iosweep.slurm", "fan_out.py"), ("iosweep.commands.doctor", "node_probe.py"))
    texts = [files(package).joinpath(name).read_text(encoding="utf-8") for package, name in sources]
    probe = "\n".join([*texts, "main(send)"])
    return [
        *("srun", f"--job-name={name}", f"--nodes={a.nodes}", f"--ntasks={a.nodes}", "--ntasks-per-node=1"),
        *(f"--immediate={max(1, round(wait_s))}", *LITTLE, "--mpi=none"),
        *("--overcommit", "--kill-on-bad-exit=0", f"--chdir={Path.cwd()}", *options),
        *(sys.executable, "-P", "-X", "utf8", "-c", probe, wanted),
    ]


def look(a: Asked, options: Sequence[str], wait_s: float) -> Answers:
    """Ask the nodes. `options`: of srun. Raises NoNodes, OSError if the places cannot be written to here."""
    token = uuid.uuid4().hex
    name = f"iosweep-doctor-{token[:8]}"
    with _ended_by_signals(), _places(a, token) as (places, lock):
        wanted = asdict(a) | {"places": places, "token": token, "lock": lock}
        output, errors = _run(command(a, options, name, wait_s, json.dumps(wanted)), name, wait_s + ANSWER_S)
        parts = fan_out.Messages()
        answers = {int(m.who): cast(Facts, m.value) for line in output.split(b"\n") if (m := parts.add(line))}
        facts = [answer for _, answer in sorted(answers.items())]
        messages, refused = _said(errors.decode("utf-8", "replace"))
        if not facts and refused:
            raise NoNodes(refused, "busy" in refused or "not available now" in refused)
        return Answers(facts, _appear(a.places, places, facts, token), messages)


def _run(argv: Sequence[str], name: str, limit_s: float) -> tuple[bytes, bytes]:
    """(stdout, stderr) of srun, which is killed after a time: what some nodes have answered by then counts."""
    # inside an allocation srun would take that one
    kept = (*query.ACCESS, "SLURM_CLUSTERS")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_") or k in kept}
    ended = False
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False, env=environment
        )
        ended = done.returncode == 0
        return done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        return late.stdout or b"", late.stderr or b""
    except OSError as error:
        raise NoNodes(f"srun cannot be run: {error.strerror}") from None
    finally:
        if not ended:  # an srun that was killed may leave its job
            with contextlib.suppress(Unanswered):
                query.ask(["scancel", "--quiet", f"--name={name}", f"--user={os.getuid()}"])


def _said(errors: str) -> tuple[list[str], str]:
    """The messages of srun that matter, each once, and why it got no nodes; empty if it got some."""
    messages: dict[str, None] = {}
    refused = ""
    for line in errors.splitlines():
        if _CHATTER.search(line):
            continue
        text = re.sub(r"^(srun|slurmstepd-\S+): (error: )?", "", line).strip()
        if "Unable to allocate" in line or "allocation failure" in line.lower():
            refused = text.partition(": ")[2] or text
        messages[text] = None
    return list(messages), refused


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Exit on signals, so that nothing of ours stays in the queue or in a directory."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda received, _: sys.exit(128 + received)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _places(a: Asked, token: str) -> Iterator[tuple[list[str], str | None]]:
    """A directory of our own in each place with a file for the nodes, and a lock that is held."""
    made: list[Path] = []
    lock = Path(a.lock) / f".iosweep-doctor-{token[:8]}.lock" if a.lock else None
    with contextlib.ExitStack() as stack:
        try:
            for shared in a.places:
                made.append(Path(tempfile.mkdtemp(prefix=".iosweep-doctor-", dir=shared)))
                (made[-1] / "here").write_text(token, encoding="ascii")
            if lock:
                handle = stack.enter_context(lock.open("w"))
                with contextlib.suppress(OSError):  # the nodes report it
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield [str(place) for place in made], str(lock) if lock else None
        finally:
            for place in made:
                shutil.rmtree(place, ignore_errors=True)
            if lock:
                lock.unlink(missing_ok=True)


def _appear(
    places: Sequence[str], made: Sequence[str], facts: Sequence[Facts], token: str
) -> frozenset[tuple[str, str]]:
    """(place, node) of the files that nodes wrote and that appeared here in time."""
    wanted = {
        (place, f["node"]): Path(own) / f"node-{f['node']}"
        for number, (place, own) in enumerate(zip(places, made, strict=True))
        for f in facts
        if f["places"][number]["same"]
    }
    found: set[tuple[str, str]] = set()
    end = time.monotonic() + SEEN_S
    while len(found) < len(wanted) and time.monotonic() < end:
        for key, file in wanted.items():
            with contextlib.suppress(OSError):
                if file.read_text(encoding="ascii") == token:
                    found.add(key)
        time.sleep(0.0 if len(found) == len(wanted) else 0.1)
    return frozenset(found)
