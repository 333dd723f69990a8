"""Disturbs the real fio: stops and continues its workers (SIGSTOP, SIGCONT) by a schedule while a timed phase runs.

`wrapper` is a shell script in place of fio, which starts this program and becomes the real fio. Both end together.
"""

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path

#: Share of the phase that has passed -> share of the time in which the workers may run.
SCHEDULES = {
    "stall": lambda passed: 0.0 if 0.3 <= passed < 0.75 else 1.0,
    "burst": lambda passed: 1.0 if passed < 0.4 else 0.1,
    "ramp": lambda passed: min(1.0, 0.02 + 1.2 * passed),
    "decline": lambda passed: max(0.05, 1.0 - 1.2 * passed),
    "slow": lambda passed: 0.15,
    "half": lambda passed: 0.5,
}
#: A worker is stopped and continued once in this time.
_PERIOD_S = 0.02
_WAIT_S = 5.0


def wrapper(schedule: str, workers: str = "all", when: str = "true") -> str:
    """A shell script for `Allocation.fake`. `workers`: "all", or how many of them; `when`: a condition of the shell."""
    command = f"{sys.executable} -I -S {Path(__file__).resolve()} $$ {schedule} {workers}"
    # in a session of its own and not waited for: fio's children are its workers, and nothing else
    return (
        f'case "$*" in *--runtime=*) if {when}; then (setsid {command} > /dev/null 2>&1 < /dev/null &); fi;; esac\n'
        'exec "$fio" "$@"'
    )


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _is_fio(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink().name == "fio"
    return False


def _option(words: list[str], name: str) -> str:
    return next(word.partition("=")[2] for word in words if word.startswith(f"--{name}="))


def _signal(workers: list[int], number: int) -> None:
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def disturb(pid: int, schedule: str, count: str) -> None:
    """Disturb the workers of the fio with this process id until its phase is over."""
    ended = os.pidfd_open(pid)

    def over(seconds: float) -> bool:
        return bool(select.select([ended], [], [], max(0.0, seconds))[0])

    patience = time.monotonic() + _WAIT_S
    while not _is_fio(pid):  # still the shell
        if over(0.002) or time.monotonic() > patience:
            return
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    wanted, runtime_s = int(_option(words, "numjobs")), int(_option(words, "runtime").removesuffix("ms")) / 1000
    while len(workers := _children(pid)) < wanted:
        if over(0.002) or time.monotonic() > patience:
            return
    chosen = workers if count == "all" else sorted(workers)[: int(count)]
    began = time.monotonic()
    try:
        while (passed := (time.monotonic() - began) / runtime_s) < 0.98:
            share = SCHEDULES[schedule](passed)
            if share < 1.0:
                _signal(chosen, signal.SIGSTOP)
            if over((1.0 - share) * _PERIOD_S):
                return
            if share > 0.0:
                _signal(chosen, signal.SIGCONT)
            if over(share * _PERIOD_S):
                return
    finally:
        _signal(chosen, signal.SIGCONT)


if __name__ == "__main__":
    disturb(int(sys.argv[1]), sys.argv[2], sys.argv[3])
