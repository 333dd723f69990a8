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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import cast

from iosweep.commands.doctor.judge_nodes import Answers, Asked, Clock, clock
from iosweep.commands.doctor.node_probe import Facts, Wanted
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
    name, began = f"iosweep-doctor-{uuid.uuid4().hex[:8]}", time.monotonic()
    token = uuid.uuid4().hex
    with _ended_by_signals(), _places(a, token) as (places, lock):
        wanted: Wanted = {
            "places": places, "token": token, "lock": lock, "target": a.target,
            "programs": list(a.programs) or ["fio", "ior", "mdtest"], "search": a.search or None,
            "pinned": a.pinned, "reserved": a.reserved,
        }  # fmt: skip
        srun = _Srun(command(a, options, name, wait_s, json.dumps(wanted)), a.nodes)
        try:
            srun.listen(wait_s + ANSWER_S)
            facts = [answer for _, answer in sorted(srun.facts.items())]
            if not facts and srun.refused:
                raise NoNodes(srun.refused, "busy" in srun.refused or "not available now" in srun.refused)
            took_s = time.monotonic() - (srun.allocated or began)
            exchanges = srun.exchange() if facts else {}
            found = _appear(a.places, places, facts, token)
        finally:
            srun.end(name)
    return Answers(facts, exchanges, found, took_s, list(srun.messages))


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


class _Srun:
    """The srun that starts the probes. `facts`: task -> its answer. `allocated`: when Slurm gave the nodes. `refused`:
    why it did not. `messages`: of srun and Slurm."""

    def __init__(self, argv: Sequence[str], nodes: int):
        self.nodes = nodes
        self.facts: dict[int, Facts] = {}
        self.allocated: float | None = None
        self.refused = ""
        self.messages: dict[str, None] = {}
        self._exchange = 0  # the number of the exchange of clocks
        self._echoes: list[tuple[int, float, float]] = []  # of this exchange: task, its time, ours
        self._parts = fan_out.Messages()
        self._selector = selectors.DefaultSelector()
        self._rest = {"out": b"", "err": b""}
        # inside an allocation srun would take that one
        kept = (*query.ACCESS, "SLURM_CLUSTERS")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_") or k in kept}
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True, bufsize=0
            )
        except OSError as error:
            raise NoNodes(f"srun cannot be run: {error.strerror}") from None
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._input = self._process.stdin
        self._selector.register(self._process.stdout, selectors.EVENT_READ, "out")
        self._selector.register(self._process.stderr, selectors.EVENT_READ, "err")

    def listen(self, seconds: float) -> None:
        """Read until all have answered, srun has ended, or the time is up."""
        self._read_until(time.monotonic() + seconds, lambda: len(self.facts) == self.nodes)

    def exchange(self) -> dict[str, Clock]:
        """node -> how far its clock is ahead of ours."""
        found: dict[str, list[tuple[float, float, float]]] = {}
        for self._exchange in range(1, EXCHANGES + 1):
            self._echoes.clear()
            sent = time.time()
            try:
                self._input.write(b"%d\n" % self._exchange)
            except OSError:
                break
            self._read_until(time.monotonic() + EXCHANGE_S, lambda: len(self._echoes) == len(self.facts))
            for task, there, received in self._echoes:
                found.setdefault(self.facts[task]["node"], []).append((sent, there, received))
        return {node: clock(exchanges) for node, exchanges in found.items()}

    def end(self, name: str) -> None:
        """End the probes by the end of their input, and srun with them."""
        with contextlib.suppress(OSError):
            self._input.close()
        # while srun waits for nodes it does not read its input
        for number in (*((None,) if self.facts else ()), signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
            end = time.monotonic() + 5
            self._read_until(end, lambda: False)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.1, end - time.monotonic()))
                break
        if self._process.returncode != 0:  # an srun that was killed may leave its job
            with contextlib.suppress(Unanswered):
                query.ask(["scancel", "--quiet", f"--name={name}", f"--user={os.getuid()}"])
        self._selector.close()

    def _read_until(self, end: float, enough: Callable[[], bool]) -> None:
        """Read until a time, the end of srun's output, or until there is enough."""
        while not enough() and self._selector.get_map() and time.monotonic() < end:
            for key, _ in self._selector.select(0.2):
                now = time.time()
                data = os.read(key.fd, 1 << 16)
                if not data:
                    self._selector.unregister(key.fileobj)
                    continue
                *lines, self._rest[key.data] = (self._rest[key.data] + data).split(b"\n")
                for line in lines:
                    if key.data == "err":
                        self._note(line.decode("utf-8", "replace"))
                    elif message := self._parts.add(line):
                        self._hear(message, now)

    def _hear(self, message: fan_out.Message, now: float) -> None:
        if message.number == 0:
            self.facts[int(message.who)] = cast(Facts, message.value)
        elif message.number == self._exchange:
            self._echoes.append((int(message.who), cast(float, message.value), now))

    def _note(self, line: str) -> None:
        if "has been allocated" in line:
            self.allocated = time.monotonic()
        if _CHATTER.search(line):
            return
        text = re.sub(r"^(srun|slurmstepd-\S+): (error: )?", "", line).strip()
        if "Unable to allocate" in line or "allocation failure" in line.lower():
            self.refused = text.partition(": ")[2] or text
        self.messages[text] = None
