"""fio's own list of its options (`job options` in its JSON), compared with what was asked for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iosweep.tools import Echo

#: Options of a command that `job options` does not have, that differ from run to run, or that change no I/O.
_NOT_COMPARED = frozenset(
    ("eta", "output-format", "name", "directory", "randseed", "cpus_allowed", "cpus_allowed_policy", "disk_util",
     "clocksource", "lat_percentiles", "clat_percentiles", "write_bw_log", "log_avg_msec", "per_job_logs")
)  # fmt: skip
#: Flags that results of before have without a value. fio repeats them in client mode alone then, with an empty one.
_FLAGS = frozenset(("time_based", "group_reporting"))
#: Option of a point -> fio's option that does it, where that is 1.
_CONFIRMS = {"o_direct": "direct", "fsync": "end_fsync"}

Options = Mapping[str, str]


def options(argv: Sequence[str]) -> Options:
    """The options with a value of a command, which fio prints as they were given; without one it prints none."""
    pairs = [argument.removeprefix("--").split("=", 1) for argument in argv if "=" in argument]
    return {name: value for name, value in pairs if name not in _NOT_COMPARED}


def compare(asked: Options | None, told: Options | None) -> Echo | None:
    """How fio's list differs from what was asked for; None where it printed none (some servers in client mode)."""
    if asked is None or told is None:
        return None
    # most runs are as asked, and sets are compared in a tenth of the time
    wrong = [
        f"fio ran with {name}={told[name]}, asked for was {value}"
        if name in told
        else f"fio ran without {name}={value}"
        for name, value in sorted(asked.items() - told.items())
        if name not in _FLAGS or told.get(name) != ""
    ]
    # a flag has no value: it is printed in client mode only
    more = sorted(name for name in told.keys() - asked.keys() - _NOT_COMPARED if told[name])
    wrong += [f"fio ran with {name}={told[name]}, which was not asked for" for name in more]
    confirmed = frozenset(own for own, name in _CONFIRMS.items() if told.get(name) == "1")
    flags = {f"fio ran without {name}={asked[name]}": f"--{name}" for name in _FLAGS & asked.keys() - told.keys()}
    return Echo(tuple(wrong), confirmed, len(asked), told.get("directory"), flags)
