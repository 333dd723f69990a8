"""Ask the nodes: one srun starts the probe on each. Nothing is left on them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import msgspec

from iosweep.commands.doctor.nodes import Answers, Asked, Clock, clock
from iosweep.commands.doctor.probe import Facts, Wanted
from iosweep.errors import Unanswered
from iosweep.slurm import fan_out, query

#: Time limits in seconds: for answers of allocated nodes, for their files to appear here, for an exchange of clocks.
ANSWER_S, SEEN_S, EXCHANGE_S = 30.0, 15.0, 1.0
EXCHANGES = 7
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
    sources = (("iosweep.slurm", "fan_out.py"), ("iosweep.commands.doctor", "probe.py"))
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
    name, began = f"iosweep-doctor-{uuid.uuid4().hex[:8]}", time.monotonic()
    token = uuid.uuid4().hex
    with _ended_by_signals(), _places(a, token) as (places, lock):
        wanted: Wanted = {
            "places": places, "token": token, "lock": lock, "target": a.target,
            "programs": list(a.programs) or ["fio", "ior", "mdtest"], "search": a.search or None,
            "pinned": a.pinned, "reserved": a.reserved, "slurm": msgspec.to_builtins(a.slurm),
        }  # fmt: skip
        talk = _Talk(command(a, options, name, wait_s, json.dumps(wanted)), a.nodes)
        try:
            talk.listen(wait_s + ANSWER_S)
            facts = talk.facts()
            if not facts and talk.refused:
                raise NoNodes(talk.refused, "busy" in talk.refused or "not available now" in talk.refused)
            took_s = time.monotonic() - (talk.allocated or began)
            exchanges = talk.exchange() if facts else {}
            found = _appear(a.places, places, facts, token)
        finally:
            talk.end(name)
    return Answers(facts, exchanges, found, took_s, talk.said())


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
    """A directory of our own in each place with a file for the nodes, and locks that are held."""
    made: list[Path] = []
    lock = Path(a.lock) / f".iosweep-doctor-{token[:8]}.lock" if a.lock else None
    with contextlib.ExitStack() as stack:
        try:
            for shared in a.places:
                made.append(Path(tempfile.mkdtemp(prefix=".iosweep-doctor-", dir=shared)))
                (made[-1] / "here").write_text(token, encoding="ascii")
            for file in [*(place / "lock" for place in made), *([lock] if lock else [])]:
                handle = stack.enter_context(file.open("w"))
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


@dataclass
class _Talk:
    """A conversation with the probes."""

    argv: Sequence[str]
    nodes: int
    allocated: float | None = None
    refused: str = ""
    _messages: fan_out.Messages = field(default_factory=fan_out.Messages)
    _facts: dict[str, Facts] = field(default_factory=dict)
    _echoes: list[tuple[str, int, float, float]] = field(default_factory=list)  # task, number, its time, ours
    _said: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # inside an allocation srun would take that one
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith("SLURM_") or k in (*query.ACCESS, "SLURM_CLUSTERS")
        }
        try:
            self._process = subprocess.Popen(
                self.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise NoNodes(f"srun cannot be run: {error.strerror}") from None
        self._selector = selectors.DefaultSelector()
        self._rest = {"out": b"", "err": b""}
        for stream, name in ((self._process.stdout, "out"), (self._process.stderr, "err")):
            assert stream
            self._selector.register(stream, selectors.EVENT_READ, name)

    def listen(self, seconds: float) -> None:
        """Read until all have answered, srun has ended, or the time is up."""
        end = time.monotonic() + seconds
        while len(self._facts) < self.nodes and self._selector.get_map() and time.monotonic() < end:
            self._read(0.2)

    def facts(self) -> list[Facts]:
        """The answers, in the order of the tasks."""
        return [self._facts[task] for task in sorted(self._facts, key=lambda task: (len(task), task))]

    def said(self) -> list[str]:
        """Messages of srun and Slurm."""
        return list(self._said)

    def exchange(self) -> dict[str, Clock]:
        """node -> how far its clock is ahead of ours."""
        found: dict[str, list[tuple[float, float, float]]] = {}
        for number in range(1, EXCHANGES + 1):
            sent, end = time.time(), time.monotonic() + EXCHANGE_S
            try:
                assert self._process.stdin
                self._process.stdin.write(b"%d\n" % number)
            except OSError:
                break
            here: list[tuple[str, int, float, float]] = []
            while len(here) < len(self._facts) and self._selector.get_map() and time.monotonic() < end:
                self._read(0.2)
                here = [echo for echo in self._echoes if echo[1] == number]
            for task, _, there, received in here:
                found.setdefault(self._facts[task]["node"], []).append((sent, there, received))
        return {node: clock(exchanges) for node, exchanges in found.items()}

    def end(self, name: str) -> None:
        """End the probes by the end of their input, and srun with them."""
        with contextlib.suppress(OSError):
            assert self._process.stdin
            self._process.stdin.close()
        # while srun waits for nodes it does not read its input
        for number in (*((None,) if self._facts else ()), signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
            end = time.monotonic() + 5
            while self._selector.get_map() and time.monotonic() < end:
                self._read(0.2)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.1, end - time.monotonic()))
                break
        if self._process.returncode != 0:  # an srun that was killed may leave its job
            with contextlib.suppress(Unanswered):
                query.ask(["scancel", "--quiet", f"--name={name}", f"--user={os.getuid()}"])
        self._selector.close()

    def _read(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            now = time.time()
            data = os.read(key.fd, 1 << 16)
            if not data:
                self._selector.unregister(key.fileobj)
                continue
            *lines, self._rest[key.data] = (self._rest[key.data] + data).split(b"\n")
            for line in lines:
                if key.data == "err":
                    self._note(line.decode("utf-8", "replace"))
                elif message := self._messages.add(line):
                    self._hear(message, now)

    def _hear(self, message: fan_out.Message, now: float) -> None:
        if message.number == 0:
            self._facts[message.who] = message.value
        else:
            self._echoes.append((message.who, message.number, message.value, now))

    def _note(self, line: str) -> None:
        if "has been allocated" in line:
            self.allocated = time.monotonic()
        if _CHATTER.search(line):
            return
        text = re.sub(r"^(srun|slurmstepd-\S+): (error: )?", "", line).strip()
        if "Unable to allocate" in line or "allocation failure" in line.lower():
            self.refused = text.partition(": ")[2] or text
        self._said[text] = None
