"""The commands of the suites' sources, as printed there.

Directories and paths of programs are shortened; all else is the sources'. A command is compared in the words of its
tool: options as name -> value, sizes in bytes, times in seconds.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Template

Value = int | float | str
Options = dict[str, Value]

#: Names that an option has beside the one it is compared by.
_ALIASES = {"blocksize": "bs", "readwrite": "rw", "-np": "-n"}
_SIZES = {"bs", "size", "filesize", "-b", "-t"}
_TIMES = {"runtime"}


@dataclass(frozen=True)
class Command:
    """A command line, taken apart."""

    tool: str
    options: Options
    launcher: str | None = None
    launcher_options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Seed:
    """A command of a source. `where` are the options of the points that reproduce it."""

    suite: str
    sweep: str
    phase: str  # ours; the first, where a command has several
    source: str
    command: Command
    where: Mapping[str, int] = field(default_factory=dict)


def parse(words: Sequence[str]) -> Command:
    """A command line, with or without a launcher."""
    if words[0] not in ("mpirun", "mpiexec"):
        return Command(words[0], _fio(words[1:]) if words[0] == "fio" else _dashed(words[1:]))
    start = next(i for i, word in enumerate(words) if word in ("ior", "mdtest"))
    inner = parse(words[start:])
    return Command(inner.tool, inner.options, words[0], _dashed(words[1:start]))


def job_file(*parts: str) -> Command:
    """A fio job: the lines of its global part and of its section."""
    return Command("fio", _fio([f"--{line}" for part in parts for line in part.split()]))


def canonical(name: str, value: str) -> tuple[str, Value]:
    """An option and its value in the form that is compared."""
    name = _ALIASES.get(name, name)
    if name in _SIZES:
        return name, _size(value)
    if name in _TIMES:
        return name, float(value[:-2]) / 1000 if value.endswith("ms") else float(value)
    return name, int(value) if value.isdigit() else value


def _size(value: str) -> int:
    power = "kmgt".find(value[-1].lower()) + 1
    return int(value[:-1] if power else value) << (10 * power)


def _fio(words: Sequence[str]) -> Options:
    options: Options = {}
    for word in words:
        assert word.startswith("--"), word
        name, _, value = word[2:].partition("=")
        name, found = canonical(name, value or "1")  # a flag
        assert name not in options, word
        options[name] = found
    return options


def _dashed(words: Sequence[str]) -> Options:
    """Options with their values: all words up to the next option; without any, a flag."""
    options: Options = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        assert word.startswith("-"), word
        name, equals, value = word.partition("=")
        values = [value] if equals else []
        while rest and not rest[0].startswith("-"):
            values.append(rest.pop(0))
        if name == "-O":  # one of IOR's directives, or several with commas
            for directive in values[0].split(","):
                key, _, value = directive.partition("=")
                options[f"-O {key}"] = value
        else:
            name, found = canonical(name, " ".join(values) or "1")
            options[name] = found
    return options


# WEKA

WEKA = "WEKA 4.3 documentation, WEKA performance tests"
#: [global] of all six job files; numjobs and filesize stand there too, except numjobs=1 of the latency tests.
WEKA_GLOBAL = """
    time_based=1 startdelay=5 exitall_on_error=1 create_serialize=0 directory=/mnt/weka/fio group_reporting=1
    clocksource=gettimeofday runtime=300 ioengine=posixaio disk_util=0 iodepth=1
"""
_BW, _IOPS = (f"filename_format=$jobnum/$filenum/{name}.$jobnum.$filenum" for name in ("bw", "iops"))
#: section -> (our phase, what it has of its own)
WEKA_SECTIONS = {
    "read_throughput": ("seq_read", f"filesize=128G numjobs=32 {_BW} bs=1m rw=read direct=1"),
    "write_throughput": ("seq_write", f"filesize=128G numjobs=32 {_BW} bs=1m rw=write direct=1"),
    "read_iops": ("rand_read", f"filesize=4G numjobs=192 {_IOPS} bs=4k rw=randread direct=1"),
    "write_iops": ("rand_write", f"filesize=4G numjobs=192 {_IOPS} bs=4k rw=randwrite direct=1"),
    "read_latency": ("rand_read", f"filesize=4G {_IOPS} numjobs=1 bs=4k rw=randread direct=1"),
    "write_latency": ("rand_write", f"filesize=4G {_IOPS} numjobs=1 bs=4k rw=randwrite direct=1"),
}
WEKA_MDTEST = "mpiexec -f clients.txt -np 1088 mdtest -v -N 136 -i 3 -n 18382 -F -u -d /mnt/weka/mdtest"
WEKA_SMALL_WRITES = """
    fio --name=FioWrites4KSingleThread --directory=/mnt/weka/FioWrites4KSingleThread --filesize=104857600
        --group_reporting --numjobs=1 --ioengine=posixaio --nrfiles=32 --invalidate=0 --iodepth=1 --max-jobs=1
        --rwmixread=0 --create_serialize=0 --runtime=70 --time_based --direct=1 --randrepeat=1
        '--filename_format=$jobnum/$filenum' --clat_percentiles=1 --blocksize=4096 --readwrite=randwrite
"""


def _weka(suite: str, own: str, source: str) -> list[Seed]:
    """The six sections. In FIOmaster.txt `stonewall` takes the place of `new_group`.

    The page offers that file without printing it: order and names of options are those of a scaled copy, sizes and
    times those of the page's job files.
    """
    return [
        Seed(suite, name.replace("_", "-"), phase, source.format(name), job_file(WEKA_GLOBAL, lines, own))
        for name, (phase, lines) in WEKA_SECTIONS.items()
    ] + [Seed(suite, "metadata", "create", f"{WEKA}, Test metadata performance", parse(shlex.split(WEKA_MDTEST)))]


# Micron

MICRON = "Micron, Millions of IOPS from a Networked File System Using Weka, Test Methodology"
#: It has no commands. These are the facts of its text: "eight fio execution jobs", "4KB block size", "70% read/30%
#: write", "128KB sequential"; the depth is raised up to the figures' deepest.
MICRON_TEXT = {
    ("small-block", "rand_read"): "numjobs=8 bs=4k rw=randread",
    ("small-block", "rand_write"): "numjobs=8 bs=4k rw=randwrite",
    ("small-block", "rand_mixed"): "numjobs=8 bs=4k rw=randrw rwmixread=70",
    ("large-block", "seq_read"): "numjobs=8 bs=128k rw=read",
    ("large-block", "seq_write"): "numjobs=8 bs=128k rw=write",
}
MICRON_DEPTHS = (1, 2, 4, 8, 16, 32)

# Lustre

LUSTRE = "Lustre benchmark notes"
LUSTRE_FIO = {
    ("small-writes", "seq_write", "Small sequential writes"): (
        "fio --numjobs=64 --name=seq_write_$(hostname) --iodepth=16 --size=16g --blocksize=128k --direct=1"
        " --ioengine=libaio --rw=write --directory=/mnt/flash --group_reporting --output-format=json"
        " --output=seq_write_small.json"
    ),
    ("large-writes", "seq_write", "Large sequential writes"): (
        "fio --numjobs=64 --name=seq_write_$(hostname) --iodepth=2 --size=16g --blocksize=16m --direct=1"
        " --ioengine=libaio --rw=write --directory=/mnt/flash --group_reporting --output-format=json"
        " --output=seq_write_large.json"
    ),
    ("large-reads", "seq_read", "Large sequential reads"): (
        "fio --numjobs=64 --name=seq_read_$(hostname) --size=16g --blocksize=64m --ioengine=libaio --rw=read"
        " --directory=/mnt/flash --group_reporting --output-format=json --output=seq_read_large.json"
    ),
}
LUSTRE_THREADS = (1, 8, 16, 32, 64, 128)
LUSTRE_TRANSFERS = ("128k", "1m", "16m", "64m")
LUSTRE_MPIRUN = (
    "mpirun --allow-run-as-root --machinefile machinefile.txt --mca btl_tcp_if_include eth0 -np $tasks --map-by node"
)
_LUSTRE_IOR = f"{LUSTRE_MPIRUN} ior -v -F --posix.odirect -C -t $transfer -b 16g"
_LUSTRE_OUT = "-o /mnt/flash/testfile -O summaryFile=out.csv -O summaryFormat=CSV"
#: function of benchmark.sh, which is our phase -> its command
LUSTRE_IOR = {
    "seq_write": Template(f"{_LUSTRE_IOR} -e -w -k {_LUSTRE_OUT}"),
    "rand_write": Template(f"{_LUSTRE_IOR} -e -w -z -k {_LUSTRE_OUT}"),
    "seq_read": Template(f"{_LUSTRE_IOR} -r -k {_LUSTRE_OUT}"),
    "rand_read": Template(f"{_LUSTRE_IOR} -r -z -k {_LUSTRE_OUT}"),
}
LUSTRE_MDTEST = Template(f"{LUSTRE_MPIRUN} mdtest -n 1024 -i 8 -u -d /mnt/flash").substitute(tasks=256)


SEEDS: list[Seed] = [
    *_weka("weka", "new_group", f"{WEKA}, {{}}.txt"),
    *_weka("everything", "stonewall", f"{WEKA}, FIOmaster.txt, [{{}}]"),
    Seed(
        "weka-small-write-latency",
        "write-latency",
        "rand_write",
        "WEKA documentation, Testing Weka System Performance, Small Write Latency Test",
        parse(shlex.split(WEKA_SMALL_WRITES)),
    ),
    *(
        Seed("four-corners", sweep, phase, MICRON, job_file(text, f"iodepth={depth}"), {"queue_depth": depth})
        for (sweep, phase), text in MICRON_TEXT.items()
        for depth in MICRON_DEPTHS
    ),
    *(
        Seed("lustre-fio", sweep, phase, f"{LUSTRE}, FIO, {name}", parse(shlex.split(text)))
        for (sweep, phase, name), text in LUSTRE_FIO.items()
    ),
    *(
        Seed(
            "lustre-ior",
            "threads-by-transfer",
            phase,
            f"{LUSTRE}, IOR, benchmark.sh, {phase}",
            parse(shlex.split(text.substitute(tasks=threads, transfer=transfer))),  # on one host
            {"threads_per_node": threads, "transfer_size": _size(transfer)},
        )
        for phase, text in LUSTRE_IOR.items()
        for threads in LUSTRE_THREADS
        for transfer in LUSTRE_TRANSFERS
    ),
    Seed("mdtest", "weka", "create", f"{WEKA}, Test metadata performance", parse(shlex.split(WEKA_MDTEST))),
    Seed("mdtest", "lustre", "dir_create", f"{LUSTRE}, MDTest Usage", parse(shlex.split(LUSTRE_MDTEST))),
]
