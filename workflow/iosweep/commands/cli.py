"""`iosweep COMMAND ...`: finds the module of a command, runs it, and prints what ended it.

A command's module has `add_arguments(parser)` and `run(arguments)`, which returns the exit code. Only the module of the
command that was given is imported.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import iosweep
from iosweep.errors import ExitCode

#: Commands for people: name, which is also that of its module -> help.
COMMANDS = {
    "plan": "show what a configuration will measure, and the time and space that takes",
    "doctor": "check this machine, or with --slurm a cluster, before a campaign",
    "watch": "follow the progress of a campaign",
    "show": "show the results of a campaign",
    "compare": "compare campaigns: what changed, and which figures got worse or better",
    "history": "show campaigns of one configuration over time: changes, and what changed then",
    "check": "check that campaigns are complete and valid; exit with 1 if one is not",
    "accept": "decide whether a campaign meets its criteria",
    "report": "regenerate the tables, the report and the figures of a campaign",
    "rerun": "mark points to be measured again; their results are kept as superseded",
    "clean": "show the files that campaigns left on the target; remove them with --yes",
    "ingest": "make a campaign of outputs of fio, IOR, mdtest or IO500 that others made",
}
#: Commands that the rules of the workflow call. `iosweep --help` does not list them.
RULES = {
    "measure": "measure what is left of an allocation",
    "tables": "make the tables from the store",
    "tools": "build the benchmark tools with Spack",
}


#: Commands that make millions of small values: the garbage collector takes up to a third of their time, and finds no
#: cycle among these.
_WITHOUT_COLLECTOR = frozenset({"plan", "report", "tables"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. `argv`: None for the arguments of this process.

    Exit codes: 0 done; 1 wrong configuration, or problems found; 2 usage; 130 Ctrl-C. `measure`: errors.ExitCode.
    """
    os.umask(os.umask(0o077) | 0o002)  # results are not for everybody to write, whatever the umask is
    for stream in (sys.stdout, sys.stderr):  # a locale or PYTHONIOENCODING may lack our symbols
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    words, collects = sys.argv[1:] if argv is None else argv, gc.isenabled()
    if not _WITHOUT_COLLECTOR.isdisjoint(words[:1]):
        gc.disable()
    try:
        return _run(_parse(words))
    except BrokenPipeError:  # the user left a pager: the code of a program that the signal ends, not that of a verdict
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    finally:
        if collects:
            gc.enable()


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="iosweep",
        description="Plan storage benchmarks, follow them, and show their results. Snakemake runs them.",
        epilog="`iosweep COMMAND --help` explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"iosweep {iosweep.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    chosen = next((argument for argument in argv if not argument.startswith("-")), None)
    for name, text in (COMMANDS | RULES).items():
        about = f"{text[0].upper()}{text[1:]}."
        if name in COMMANDS:
            command = commands.add_parser(name, help=text, description=about)
        else:
            command = commands.add_parser(name, description=about)
        if name == chosen:
            code = importlib.import_module(f"iosweep.commands.{name}")
            command.set_defaults(command=name, run=code.run, refuse=command.error)
            code.add_arguments(command)
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> int:
    from iosweep.commands.terminal import say
    from iosweep.errors import CommandError, ConfigError
    from iosweep.files import documents
    from iosweep.files.safe_paths import logged
    from iosweep.text import human_count

    with contextlib.ExitStack() as stack:
        try:
            log: Path | None = getattr(arguments, "log", None)  # of a rule's command; `measure` writes its own
            if log:
                stack.enter_context(logged(log, log.parent.parent))
        except OSError as error:
            file = error.filename or arguments.log
            say(f"iosweep: cannot write the log {file}: {error.strerror}", file=sys.stderr)
            return 1
        try:
            code = int(arguments.run(arguments))
            sys.stdout.flush()  # while its errors have a sentence
            return code
        except ConfigError as error:
            say(f"{error}\n{human_count(len(error.problems), 'problem')}; nothing was run", file=sys.stderr)
            return 1
        except CommandError as error:
            say(f"iosweep: {error}", file=sys.stderr)
            return error.exit_code
        except documents.Damaged as error:
            say(f"iosweep: {error}{documents.cure(error.path)}", file=sys.stderr)
            return 1
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            wrong = f"{error.filename or 'the output'} cannot be written: {error.strerror}"
            say(f"iosweep: {wrong}; make room, then run the same command again", file=sys.stderr)
            return ExitCode.USAGE  # 1 would be a verdict of `accept`
