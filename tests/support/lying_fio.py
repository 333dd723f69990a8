"""fio with one lie: `python lying_fio.py LIE FIO ARGUMENT...` runs FIO and changes its arguments or its output.

For tests only. A lie is an entry of `LIES`: what becomes of fio's arguments, and of the entry in `jobs` of its JSON.
Preparing files (`--name=prepare`) and everything without JSON is left alone. `through(lie)` is the line for
`Allocation.fake`.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Argv = list[str]
Entry = dict[str, Any]
_RATES = ("iops", "iops_min", "iops_max", "iops_mean", "bw", "bw_bytes", "bw_min", "bw_max", "bw_mean")
_COUNTS = ("total_ios", "io_bytes", "io_kbytes", "iops_samples", "bw_samples")


class Lie(NamedTuple):
    """argv: fio's arguments -> those that it gets; entry: changes the printed entry, given the arguments as asked."""

    argv: Callable[[Argv], Argv] = lambda argv: argv
    entry: Callable[[Entry, Argv], None] = lambda entry, argv: None


def _scaled(block: dict[str, Any], names: tuple[str, ...], factor: float) -> None:
    for name in names:
        if name in block:
            block[name] = type(block[name])(block[name] * factor)


def _directions(entry: Entry) -> list[dict[str, Any]]:
    return [entry[name] for name in ("read", "write") if entry[name]["total_ios"]]


def _more(entry: Entry, argv: Argv) -> None:
    """Ten times as many I/Os in the same time, each as fast as they were."""
    for part in _directions(entry):
        _scaled(part, (*_RATES, *_COUNTS), 10)
        for latencies in (part["slat_ns"], part["clat_ns"], part["lat_ns"]):
            latencies["N"] *= 10
            latencies |= {"bins": {k: n * 10 for k, n in latencies["bins"].items()}} if "bins" in latencies else {}


def _clock(speed: float) -> Lie:
    """fio's clock goes `speed` times as fast as it should."""

    def argv(given: Argv) -> Argv:
        def slower(match: re.Match[str]) -> str:
            return f"--runtime={round(int(match[1]) / speed)}ms"

        return [re.sub(r"--runtime=(\d+)ms", slower, argument) for argument in given]

    def entry(found: Entry, given: Argv) -> None:
        _as_asked(found, given)
        _scaled(found, ("job_runtime",), speed)
        for part in _directions(found):
            _scaled(part, ("runtime",), speed)
            part["iops"] = part["total_ios"] * 1000 / part["runtime"]
            part["iops_mean"] = part["iops"]
            part["bw_bytes"] = part["io_bytes"] * 1000 // part["runtime"]
            part["bw"] = part["bw_bytes"] // 1024
            for latencies in (part["slat_ns"], part["clat_ns"], part["lat_ns"]):
                _scaled(latencies, ("min", "max", "mean", "stddev"), speed)
                if "bins" in latencies:
                    latencies["percentile"] = {k: int(v * speed) for k, v in latencies["percentile"].items()}
                    latencies["bins"] = {str(round(int(k) * speed)): n for k, n in latencies["bins"].items()}

    return Lie(argv, entry)


def _as_asked(entry: Entry, argv: Argv) -> None:
    """fio's echo has the time that was asked for."""
    for argument in argv:
        if argument.startswith("--runtime="):
            entry["job options"]["runtime"] = argument.partition("=")[2]


def _without(*options: str) -> Lie:
    return Lie(lambda argv: [argument for argument in argv if argument.partition("=")[0] not in options])


def _closed_loop(asked: Argv) -> Argv:
    """A device that does 25 I/Os per second and worker, and 100 in all."""
    jobs = next(int(word.partition("=")[2]) for word in asked if word.startswith("--numjobs="))
    return [f"--thinktime={max(40_000, jobs * 10_000)}"]


def _shared(asked: Argv) -> Argv:
    """A file system that does 240 I/Os per second in all; the point's id says how many nodes share them."""
    directory = next(word for word in asked if word.startswith("--directory="))
    nodes = re.search(r"/fio\.\w+\.(\d+)n\.", directory)
    assert nodes, directory
    return [f"--rate_iops={240 // int(nodes[1])}"]


def _slower(more: Callable[[Argv], Argv]) -> Lie:
    """Options that its echo does not have: a slow device, and no lie."""

    def entry(found: Entry, asked: Argv) -> None:
        for option in more(asked):
            del found["job options"][option[2:].partition("=")[0]]

    return Lie(lambda asked: [*asked, *more(asked)], entry)


LIES: dict[str, Lie] = {
    "slow": _slower(lambda _: ["--rate_iops=50"]),
    "closed-loop": _slower(_closed_loop),
    "shared": _slower(_shared),
    "none": Lie(),
    "rates-x10": Lie(entry=_more),
    "clock-half": _clock(0.5),
    "clock-double": _clock(2.0),
    "drop-direct": _without("--direct"),
    "drop-fsync": _without("--end_fsync"),
    "sequential-instead-of-random": Lie(lambda argv: [a.replace("--rw=rand", "--rw=") for a in argv]),
}


def through(lie: str, fio: str = "$fio") -> str:
    """A line of shell for `Allocation.fake`: fio tells this lie."""
    return f'exec {sys.executable} -SE "{Path(__file__)}" {lie} "{fio}" "$@"'


def main(name: str, fio: str, *asked: str) -> int:
    lie, argv = LIES[name], list(asked)
    if "--name=prepare" in argv or not any(argument.startswith("--output-format=json") for argument in argv):
        return subprocess.call([fio, *argv])
    done = subprocess.run([fio, *lie.argv(argv)], stdout=subprocess.PIPE, check=False)
    before, brace, document = done.stdout.partition(b"{\n")
    if not brace:
        sys.stdout.buffer.write(done.stdout)
        return done.returncode
    printed = json.loads(brace + document)
    for entry in printed["jobs"]:
        lie.entry(entry, argv)
    sys.stdout.buffer.write(before + json.dumps(printed, indent=2).encode() + b"\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
