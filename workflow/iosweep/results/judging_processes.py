"""Judges blocks of points in several processes, where they are many.

A process is `python -m iosweep.results.judging_processes`. It reads the campaign and the points of a block, as lines of
JSON, and writes the block (row_blocks) with its length in front. It ends when its input does, so none outlives merge.
"""

from __future__ import annotations

import contextlib
import gc
import os
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from iosweep.plan.model import Plan, Point, plan_from_document
from iosweep.results import row_blocks
from iosweep.results.judging import Judge
from iosweep.results.row_blocks import Block, Unreadable

#: Repetitions from which on a second process pays: it takes half a second to start.
WORTH_IT = 2000
#: Processes at most, on however many CPUs: the file system is shared, and so is a login node.
MOST = 8
#: Blocks that a process has been asked for and has not returned: it judges one while the other is written.
_AHEAD = 2
_LENGTH = struct.Struct("<Q")


class _Campaign(msgspec.Struct):
    """The first line that a process reads."""

    plan: str
    results: bytes  # as given, because messages name it; a path may have any bytes
    memory: dict[str, int | None]


class Here:
    """Judges in this process. memory: key of a node's facts -> bytes of its memory."""

    def __init__(self, judge: Judge, memory: Mapping[str, int | None]):
        self._judge, self._memory = judge, memory

    def block(self, points: Sequence[Point]) -> Block:
        """The block of some points."""
        return row_blocks.made([self._judge.point(point) for point in points], self._memory)

    def __call__(self, wanted: Sequence[Sequence[Point]]) -> Iterator[Block]:
        return map(self.block, wanted)


class Processes:
    """Judges in other processes, as many as pay; and here, where one of these ends before its time."""

    def __init__(self, here: Here, plan: Plan, results: Path, memory: Mapping[str, int | None]):
        self._here, self._numbers = here, {point.id: number for number, point in enumerate(plan.points)}
        self._points = results / "points"
        self._campaign = _Campaign(plan.document().decode(), os.fsencode(results), dict(memory))

    def __call__(self, wanted: Sequence[Sequence[Point]]) -> Iterator[Block]:
        there = (point for points in wanted for point in points if (self._points / point.id).is_dir())
        repetitions = sum(point.repetitions.max for point in there)
        number = min(how_many(repetitions, len(os.sched_getaffinity(0))), len(wanted))
        return self._apart(wanted, number) if number > 1 else self._here(wanted)

    def _apart(self, wanted: Sequence[Sequence[Point]], number: int) -> Iterator[Block]:
        """Block k is judged by process k modulo their number, so that all are read in their order."""
        with contextlib.ExitStack() as started:
            processes = [started.enter_context(_Process(self._campaign)) for _ in range(number)]
            asked: deque[int] = deque()
            for k in range(len(wanted)):
                while len(asked) < number * _AHEAD and (following := k + len(asked)) < len(wanted):
                    processes[following % number].ask([self._numbers[point.id] for point in wanted[following]])
                    asked.append(following)
                asked.popleft()
                yield processes[k % number].answer() or self._here.block(wanted[k])


def how_many(repetitions: int, cpus: int) -> int:
    """Processes that judge so many repetitions on these CPUs."""
    return max(1, min(cpus, MOST, repetitions // (WORTH_IT // 2)))


class _Process:
    """Context manager: a process that judges."""

    def __init__(self, campaign: _Campaign):
        self._campaign: _Campaign | None = campaign  # until it is sent
        self._ended = False

    def __enter__(self) -> _Process:
        # -P: the directory that we run in is not for modules, and may be anybody's
        argv = [sys.executable, "-P", "-X", "utf8", "-m", __name__]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin and self._process.stdout
        self._to, self._from = self._process.stdin, self._process.stdout
        return self

    def ask(self, numbers: Sequence[int]) -> None:
        """Ask for the block of points by their numbers in the plan: a short line, which no pipe holds up."""
        if self._campaign:  # only now: a long plan waits for the process to start, and all of them start together
            self._send(msgspec.json.encode(self._campaign))
            self._campaign = None
        self._send(msgspec.json.encode(numbers))

    def _send(self, line: bytes) -> None:
        try:
            self._to.write(line + b"\n")
            self._to.flush()
        except OSError:
            self._ended = True

    def answer(self) -> Block | None:
        """The block that was asked for first; None from a process that has ended."""
        if not self._ended:
            head = self._from.read(_LENGTH.size)
            data = self._from.read(*_LENGTH.unpack(head)) if len(head) == _LENGTH.size else b""
            try:
                end = row_blocks.states_end(data)
                return Block(
                    row_blocks.decoded_states(memoryview(data)[:end]),
                    *row_blocks.decoded_tables(memoryview(data)[end:]),
                )
            except Unreadable:
                self._ended = True
        return None

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            self._to.close()
        self._from.close()  # a process that writes ends with that
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def serve(lines: BinaryIO, to: BinaryIO) -> None:
    """What a process does."""
    campaign = msgspec.json.decode(lines.readline(), type=_Campaign)
    plan, results = plan_from_document(campaign.plan.encode()), Path(os.fsdecode(campaign.results))
    here = Here(Judge(plan, results, campaign.memory), campaign.memory)
    for line in lines:
        numbers = msgspec.json.decode(line, type=list[int])
        data = row_blocks.encoded(here.block([plan.points[number] for number in numbers]))
        to.write(_LENGTH.pack(len(data)) + data)
        to.flush()


if __name__ == "__main__":
    gc.disable()  # as merge does
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        serve(sys.stdin.buffer, sys.stdout.buffer)
