"""What IOR 3.0 and 3.1 print otherwise than 3.2 and later, in the later words.

Their table has the columns of 3.2's, and the summary of all tests tells bytes instead of MiB. What a run was stands in
lines of their own, which are these or none: a run that lacks one of `NEEDED` is not read. IOR 2 prints the figures of
single iterations with -v -v only, in another layout, which is not read.
"""

from __future__ import annotations

import re

#: Versions that are older than all that are read, and releases that have this layout (development versions of 3.1 have
#: either).
TOO_OLD = re.compile(r"[12]\.")
RELEASES = re.compile(r"3\.[01](\.\d+)?")
#: printed for every test, also without -v
NEEDED = (
    "api", "access", "ordering in a file", "tasks", "clients per node", "repetitions", "xfersize", "blocksize",
    "aggregate filesize",
)  # fmt: skip
_OPTION = re.compile(
    r"\s+(?=.{19}= )(api|access|pattern|ordering in a file|clients|repetitions|xfersize|blocksize|aggregate filesize"
    r"|Using stonewalling) *= (.*)"
)
TEST = re.compile(r"Test (\d{1,6}) started: \w{3} \w{3} [ \d]\d [\d:]{8} \d{4}")
COMMAND = re.compile(r"Command line used: (.*)")
HEAD = re.compile(r"(Began|Machine): (\S.*)")
FINISHED = re.compile(r"Finished: \w{3} \w{3} [ \d]\d [\d:]{8} \d{4}")
#: values of `Summary:` that say two things, or say it otherwise
_VALUES = {
    "access": re.compile(r"(?P<access>file-per-process|single-shared-file)(, (?P<type>independent|collective))?"),
    "pattern": re.compile(r"\w+ \((?P<segments>\d+) segments?\)"),
    "clients": re.compile(r"(?P<tasks>\d+) \((?P<clients_per_node>\d+) per node\)"),
    "api": re.compile(r"(?P<api>\w+)\b.*"),  # MPIIO and HDF5 with their version
    "ordering in a file": re.compile(r"(?P<ordering_in_a_file>sequential|random) offsets"),
    "Using stonewalling": re.compile(r"(?P<stonewallingTime>\d+) second\(s\)(?: with phase out)?"),
}


def options(text: str) -> dict[str, str] | None:
    """A line below `Summary:` as later versions say it; None where it is none (the columns are part of what it is).

    ValueError where the line is one and its value is not as IOR writes it.
    """
    match = _OPTION.fullmatch(text)
    if not match:
        return None
    name, value = match[1], match[2].strip()
    if name not in _VALUES:
        return {name: value}
    found = _VALUES[name].fullmatch(value)
    if not found:
        raise ValueError(f"{name} {value[:80]}")
    return {key.replace("_", " "): told for key, told in found.groupdict().items() if told}
