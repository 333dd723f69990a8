"""The agent: one small process per node and allocation that touches the target for the runner.

A touch of a sick file system may never come back, and a process in it cannot even be killed. So the runner never
touches the target itself: it asks this child over a pipe, one JSON line each way, and waits no longer than a deadline.
An agent that misses it is killed and replaced. A child per touch would cost 10 ms each; this costs 0.2 ms.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iosweep import process, target

#: Seconds that a touch of the target may take before it counts as hanging.
DEADLINE_S = 30.0
#: Removing or examining very many files takes its time.
LONG_DEADLINE_S = 900.0


class TargetHangs(Exception):
    """The target did not answer in time."""


class TargetError(OSError):
    """The target answered with an error."""


class Agent:
    """The runner's side. Use as a context manager."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def call(self, operation: str, *arguments: Any, deadline_s: float = DEADLINE_S) -> Any:
        """Run one of target.OPERATIONS in the child.

        Raises TargetHangs after `deadline_s` (the child is killed, the next call starts another), target.Refused where
        something is not ours, TargetError for an error of the file system.
        """
        child = self._start()
        answer = _exchange(child, json.dumps([operation, arguments]).encode() + b"\n", deadline_s)
        if answer is None:
            self._stop()
            what = f"{operation} {arguments[0] if arguments else ''}"
            raise TargetHangs(f"the target does not answer: `{what.strip()}` took longer than {deadline_s:.0f} s")
        if "refused" in answer:
            raise target.Refused(answer["refused"])
        if "error" in answer:
            raise TargetError(answer["errno"], answer["error"])
        return answer["value"]

    def run(self, argv: Sequence[str], timeout_s: float, directory: Path | None = None) -> process.Completed:
        """`process.run` under guard: if we are killed meanwhile, the child kills the command and its descendants.

        A tool that outlives its runner would measure on beside the next one, and write to its files.
        """
        spare = [self._start().pid]
        try:
            return process.run(argv, timeout_s, spare, lambda pid: self.call("guard", pid), directory)
        finally:
            self.call("guard", 0)

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "iosweep.agent"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the runner
            )
        return self._process

    def _stop(self) -> None:
        if self._process is None:
            return
        child, self._process = self._process, None
        child.kill()
        assert child.stdin and child.stdout
        child.stdin.close()
        child.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # in the file system: it ends when that lets it go
            child.wait(1)


def _exchange(child: subprocess.Popen[bytes], line: bytes, deadline_s: float) -> dict[str, Any] | None:
    """Send a request and wait for its answer; None after the deadline."""
    assert child.stdin and child.stdout
    end = time.monotonic() + deadline_s
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(line)
        child.stdin.flush()
    received = bytearray()
    descriptor = child.stdout.fileno()
    while not received.endswith(b"\n"):
        ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return None
        part = os.read(descriptor, 1 << 16)
        if not part:
            raise TargetError(0, f"the agent ended by itself (exit code {child.wait()})")
        received += part
    answer: dict[str, Any] = json.loads(received)
    return answer


def main() -> None:
    """The child: answers one request after the other, ends with its standard input or its parent."""
    guarded = 0

    def orphaned(*_: object) -> None:
        if guarded:
            process.kill_tree(guarded)
        os._exit(0)

    def when_orphaned(number: signal.Signals) -> None:
        ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG: also while a request is being answered

    signal.signal(signal.SIGTERM, orphaned)
    when_orphaned(signal.SIGKILL)  # the only one that ends what hangs in a network file system
    for line in sys.stdin.buffer:
        operation, arguments = json.loads(line)
        answer: dict[str, Any]
        try:
            if operation == "guard":
                (guarded,) = arguments
                when_orphaned(signal.SIGTERM if guarded else signal.SIGKILL)
                answer = {"value": None}
            else:
                answer = {"value": target.OPERATIONS[operation](*arguments)}
        except target.Refused as error:
            answer = {"refused": str(error)}
        except OSError as error:
            answer = {
                "errno": error.errno or 0,
                "error": f"{error.strerror or error}: {error.filename or operation}",
            }
        try:
            sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # the parent is gone, and what it had started must not stay
            break
    orphaned()


if __name__ == "__main__":
    main()
