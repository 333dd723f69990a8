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
from typing import Any

from iosweep import target

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

    @property
    def pid(self) -> int | None:
        """Process id of the child, None before its first touch."""
        return self._process.pid if self._process else None

    def call(self, operation: str, *arguments: Any, deadline_s: float = DEADLINE_S) -> Any:
        """Run one of target.OPERATIONS in the child.

        Raises TargetHangs after `deadline_s` (the child is killed, the next call starts another), target.Refused where
        something is not ours, TargetError for an error of the file system.
        """
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "iosweep.agent"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the runner
            )
        answer = self._exchange(json.dumps([operation, arguments]).encode() + b"\n", deadline_s)
        if answer is None:
            self._stop()
            what = f"{operation} {arguments[0] if arguments else ''}"
            raise TargetHangs(f"the target does not answer: `{what.strip()}` took longer than {deadline_s:.0f} s")
        if "refused" in answer:
            raise target.Refused(answer["refused"])
        if "error" in answer:
            raise TargetError(answer["errno"], answer["error"])
        return answer["value"]

    def _exchange(self, line: bytes, deadline_s: float) -> dict[str, Any] | None:
        assert self._process and self._process.stdin and self._process.stdout
        end = time.monotonic() + deadline_s
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line)
            self._process.stdin.flush()
        received = bytearray()
        descriptor = self._process.stdout.fileno()
        while not received.endswith(b"\n"):
            ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return None
            part = os.read(descriptor, 1 << 16)
            if not part:
                raise TargetError(0, f"the agent ended by itself (exit code {self._process.wait()})")
            received += part
        answer: dict[str, Any] = json.loads(received)
        return answer

    def _stop(self) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        process.kill()
        assert process.stdin and process.stdout
        process.stdin.close()
        process.stdout.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # in the file system: it ends when that lets it go
            process.wait(1)


def main() -> None:
    """The child: answers one request after the other, ends with its standard input or its parent."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    for line in sys.stdin.buffer:
        operation, arguments = json.loads(line)
        answer: dict[str, Any]
        try:
            answer = {"value": target.OPERATIONS[operation](*arguments)}
        except target.Refused as error:
            answer = {"refused": str(error)}
        except OSError as error:
            answer = {
                "errno": error.errno or 0,
                "error": f"{error.strerror or error}: {error.filename or operation}",
            }
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
