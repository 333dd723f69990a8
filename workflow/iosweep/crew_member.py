"""The agent of one node of an allocation (crew.py is the runner's side): says what its node is like, starts the tools
that know nothing of other nodes, and looks on while a launcher's ranks run.

It is started by srun, reads requests from stdin, answers on stdout, and ends with its stdin.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from iosweep import node, process, target
from iosweep.programs import hash_of

#: Characters of a piece of an answer; srun's messages hold 1,024 bytes.
PIECE = 700
#: So long may a server of a tool take to listen.
_SERVER_S = 10.0
#: Shorter runs are too few ticks to tell who took the CPUs' time.
_LEAST_S = 0.2


#: Until a rank is seen it may come and go between two looks; where none is seen for so long, none will be: the program
#: may be a script, and to look on would take CPU time from what is measured.
_SOON_S, _SEARCHED_S = 0.05, 3.0


class _Watch:
    """Looks on while a launcher's ranks run: how many there are at once, and what CPU time others take.

    The ranks are Slurm's children and not ours, so the kernel does not add up their time for us.
    """

    def __init__(self, path: str, expected: int):
        self._most, self._path, self._expected = 0, os.path.realpath(path), expected
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._before, self._began = _foreign(), time.monotonic()
        self._thread.start()

    def _look(self) -> None:
        wait_s, there = _SOON_S, {pid for pid, _ in self._before}
        while self._most < self._expected:  # then there is nothing more to learn
            new = [pid for pid in _processes() if pid not in there]
            ranks = {pid for pid in new if _program(pid) == self._path and _is_of_job(pid)}
            # one that a rank has just forked is none
            self._most = max(self._most, sum(_parent(pid) not in ranks for pid in ranks))
            if self._stop.wait(wait_s):
                return
            if self._most or time.monotonic() - self._began > _SEARCHED_S:
                wait_s = min(2 * wait_s, 1.0)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def end(self) -> dict[str, Any]:
        self.stop()
        ticks = sum(now - self._before.get(key, 0) for key, now in _foreign().items())
        took_s = time.monotonic() - self._began
        other = ticks / os.sysconf("SC_CLK_TCK") / took_s / (os.cpu_count() or 1)
        return {"ranks": self._most, "other": round(other, 3) if took_s >= _LEAST_S else None}


def _processes() -> list[str]:
    """Process ids, as they stand in /proc. There may be thousands, so no Path is made of them."""
    return [name for name in os.listdir("/proc") if name.isdigit()]


def _of_job() -> Iterator[str]:
    """Processes of this Slurm job."""
    return (pid for pid in _processes() if _is_of_job(pid))


def _is_of_job(pid: str) -> bool:
    return _has(pid, f"SLURM_JOB_ID={os.environ.get('SLURM_JOB_ID')}")


def _has(pid: str, variable: str) -> bool:
    """Whether a process has this in its environment, `NAME=value`."""
    return f"\0{variable}\0".encode() in b"\0" + _read(pid, "environ")


def _read(pid: str, name: str) -> bytes:
    """A file of a process; empty if that is another user's, or gone."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _program(pid: str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


def _parent(pid: str) -> str:
    return (_read(pid, "stat").rpartition(b")")[2].split() or [b"", b""])[1].decode()


#: Processes that were not this job's when they were looked at last: to read that again takes longer than all else.
_strangers: frozenset[tuple[str, bytes]] = frozenset()


def _foreign() -> dict[tuple[str, bytes], int]:
    """(process id, start) -> CPU time in ticks, of programs that are not this job's. (The kernel's threads work for
    everybody.) Not while something is being started: a process becomes a rank only when it executes its program."""
    global _strangers
    found = {}
    for pid in _processes():
        stat = _read(pid, "stat").rpartition(b")")[2].split()
        if not stat or (stat[1] in (b"0", b"2") and pid != "1"):  # gone, or a thread of the kernel, by its parent
            continue
        if (key := (pid, stat[19])) in _strangers or not _is_of_job(pid):
            found[key] = int(stat[11]) + int(stat[12])
    _strangers = frozenset(found)
    return found


_watch: _Watch | None = None


def _look_on(path: str, expected: int) -> None:
    global _watch
    if _watch:
        _watch.stop()
    _watch = _Watch(path, expected)


def _seen() -> dict[str, Any]:
    assert _watch
    return _watch.end()


_servers: list[subprocess.Popen[bytes]] = []


def _free_port(address: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as free:
        free.bind((address, 0))
        return int(free.getsockname()[1])


def _serve(argv: list[str], address: str, port: int) -> None:
    """Start a server and wait until it listens. Raises OSError."""
    server = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _servers.append(server)
    end = time.monotonic() + _SERVER_S
    while server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
            return
        if time.monotonic() > end:
            raise OSError(errno.ETIMEDOUT, f"the server does not listen after {_SERVER_S:g} s", argv[0])
        time.sleep(0.02)
    assert server.stderr
    raise OSError(errno.ECHILD, server.stderr.read(500).decode("utf-8", "replace").strip() or "it ended", argv[0])


def _end_servers() -> None:
    for server in _servers:
        server.kill()
        server.wait()
        assert server.stderr
        server.stderr.close()
    _servers.clear()
    process.end_descendants()  # their jobs


def _facts(directory: str, programs: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What node.facts says of this node, and target.identify of the target from here."""
    seen = target.OPERATIONS["identify"](directory)
    space = target.OPERATIONS["space"](directory)
    tools = {name: (path, version) for name, (path, version) in programs.items()}
    builds = {name: hash_of(path) for name, (path, _) in programs.items()}
    return {"target": seen, "builds": builds, "node": node.facts(seen, space, tools)}


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 1)).decode()


_staged: list[str] = []


def _stage(argv: list[str]) -> None:
    """What to run when it is told. The request to run, which goes to all nodes at once, is then a short one."""
    _staged[:] = argv


def _run(timeout_s: float) -> dict[str, Any]:
    argv = _staged
    with process.memory("stdout") as stdout, process.memory("stderr") as stderr:
        started = time.time()
        done = process.run(argv, timeout_s, None, stdout.fileno(), stderr.fileno(), asker=0)
        ended = time.time()
        printed = []
        for stream in (stdout, stderr):
            stream.seek(0)
            printed.append(_packed(stream.read(process.MOST_BYTES)))
    completed = {k: v for k, v in asdict(done).items() if k not in ("argv", "stdout", "stderr")}
    return {"completed": completed, "started": started, "ended": ended, "stdout": printed[0], "stderr": printed[1]}


OPERATIONS: dict[str, Callable[..., Any]] = {
    "hello": lambda: os.environ.get("SLURM_STEP_ID", ""),
    "clock": time.time,
    "facts": _facts,
    "hash": hash_of,
    "ours": target.ours,
    "free_port": _free_port,
    "serve": _serve,
    "end_servers": _end_servers,
    "stage": _stage,
    "run": _run,
    "watch": _look_on,
    "seen": _seen,
}


def _sweep(step: str) -> None:
    """Kill what is left of a step of this job on this node."""
    for each in _of_job():
        if _has(each, f"SLURM_STEP_ID={step}"):
            with contextlib.suppress(OSError):
                os.kill(int(each), signal.SIGKILL)


def main() -> None:
    """An agent: answers one request after the other, ends with its stdin. With an argument: _sweep."""
    if len(sys.argv) > 1:
        return _sweep(sys.argv[1])
    process.adopt_orphans()
    signal.signal(signal.SIGTERM, _leave)
    name = os.environ.get("SLURMD_NODENAME", "")
    received = b""
    while part := os.read(0, 1 << 16):
        *lines, received = (received + part).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if (own := request.get("each")) is None or name in own:
                arguments = request["arguments"] if own is None else own[name]
                _answer(request["number"], name, _done(request["operation"], arguments))
    _leave()


def _done(operation: str, arguments: list[Any]) -> dict[str, Any]:
    try:
        return {"value": OPERATIONS[operation](*arguments)}
    except process.Abandoned:
        _leave()
    except target.Refused as error:
        return {"refused": str(error)}
    except OSError as error:
        return {"errno": error.errno or 0, "error": f"{error.strerror or error}: {error.filename or operation}"}
    raise AssertionError


def _answer(number: int, name: str, answer: Mapping[str, Any]) -> None:
    text = base64.b64encode(json.dumps(answer).encode()).decode()
    pieces = [text[i : i + PIECE] for i in range(0, len(text), PIECE)]
    # from a new line: a site's words may stand before it without an end
    lines = "\n" + "".join(f"{number} {name} {i}/{len(pieces)} {piece}\n" for i, piece in enumerate(pieces))
    data = memoryview(lines.encode())
    while data:
        data = data[os.write(1, data) :]


def _leave(*_: object) -> None:
    process.end_descendants(tidy=True)
    os._exit(0)


if __name__ == "__main__":
    main()
