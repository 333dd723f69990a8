"""`iosweep ingest`: outputs that others made become a campaign, with the same tables and the same report."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from iosweep.commands import campaigns, outcome
from iosweep.commands.report import make_figures, make_page
from iosweep.commands.tables import make_tables_of
from iosweep.commands.terminal import prose, say
from iosweep.errors import Busy, CommandError
from iosweep.files import safe_paths
from iosweep.files.fields import NAME
from iosweep.results import ingested
from iosweep.results.ingested import Io500Run
from iosweep.results.store import Store
from iosweep.target import lock
from iosweep.text import human_count
from iosweep.units import human_size

#: Exit codes; 0: a campaign was made, whatever its verdicts. `iosweep check` judges these.
NOTHING, USAGE = 1, 2
#: Reasons that are printed of each kind.
_SHOWN = 12


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "path",
        nargs="+",
        type=Path,
        help="output of fio, IOR or mdtest, or a directory with such, also of IO500",
    )
    parser.add_argument("--as", dest="name", required=True, metavar="NAME", help="name of the campaign")
    parser.add_argument(
        "--results", type=Path, default=campaigns.RESULTS, metavar="DIR", help=f"default: {campaigns.RESULTS}/"
    )
    parser.add_argument("--replace", action="store_true", help="replace a campaign of that name that was ingested")
    parser.epilog = (
        "Exit codes: 0 a campaign was made, whatever its verdicts (`iosweep check` judges these); 1 nothing usable was"
        " found, and nothing was written; 2 usage."
    )


def run(arguments: Namespace) -> int:
    results = arguments.results / arguments.name
    if why := _cannot_be(arguments, results) or _taken(results, arguments.replace):
        raise CommandError(why, USAGE)
    with _reserved(results):
        if why := _taken(results, arguments.replace):  # by an ingest that has just ended
            raise CommandError(why, USAGE)
        return _ingest(arguments, results)


@contextmanager
def _reserved(results: Path) -> Iterator[None]:
    """Keep other processes off a campaign: its lock ends with its owner. Raises CommandError where another has it.

    A directory in which nothing was made is removed.
    """
    store, new = Store(results), not os.path.lexists(results)
    with ExitStack() as held:
        try:
            note = held.enter_context(store.locked())
        except Busy as error:
            raise CommandError(f"{error}, or choose another name", USAGE) from None
        except OSError as error:
            raise CommandError(_not_written(results, error)) from None
        if note:
            say(f"iosweep: {note}", file=sys.stderr)
        try:
            yield
        finally:
            if new and safe_paths.names(results, "") == [lock.NAME]:
                with suppress(OSError):
                    (results / lock.NAME).unlink()
                    results.rmdir()


def _not_written(results: Path, error: OSError) -> str:
    remedy = safe_paths.remedy(error)
    why = f"{error.filename or results}: {error.strerror or error}"
    return f"{why}; nothing was ingested{f'; {remedy}' if remedy else ''}"


def _ingest(arguments: Namespace, results: Path) -> int:
    from iosweep.ingest import tables

    try:
        document, digest, read = tables.collect(results, arguments.name, arguments.path)
    except tables.NothingUsable as error:
        _print_reasons("file", "not usable", error.refused)
        say(f"iosweep: {error}; nothing was written", file=sys.stderr)
        return NOTHING
    except OSError as error:
        raise CommandError(_not_written(results, error)) from None
    facts = make_tables_of(results, lambda: tables.make(results, document, digest, read))
    many = ", ".join(
        human_count(count, "summary of IO500", "summaries of IO500")
        if kind == ingested.IO500
        else f"{count:,} of {kind}"
        for kind, count in facts.files.items()
    )
    prose(f"{human_count(len(document.distinct), 'file')} read ({human_size(facts.bytes)}): {many}")
    _print_reasons("file", "not taken", facts.refused)
    _print_reasons("file", "kept, and without a usable result", facts.without_rows)
    _print_reasons("row", "not in the tables", facts.left_out)
    _print_io500(facts.io500)
    prose(outcome.sentence(outcome.of(results)))
    prose(f"report: {make_page(results)}")  # of thousands of results it takes minutes: the rest is printed before
    make_figures(results)
    return 0


def _cannot_be(arguments: Namespace, results: Path) -> str | None:
    """Why a command line can be of no use, or None."""
    if not NAME.fullmatch(arguments.name):
        return f"--as {arguments.name}: a name has letters, digits, and `._+-` behind the first"
    if gone := [path for path in arguments.path if not os.path.lexists(path)]:
        return f"{gone[0]}: there is no such file or directory; nothing was read"
    if inside := [path for path in arguments.path if _within(results, path)]:
        return f"{results} would be inside {inside[0]}, which is read: choose another --results"
    return None


def _taken(results: Path, replace: bool) -> str | None:
    """Why a name cannot be used, or None."""
    if ingested.there(results):
        if replace:
            return None
        return f"{results} was ingested before; --replace replaces it, or choose another name"
    if os.path.lexists(results) and not _left_over(results):
        return f"{results} is there, and was not ingested: choose another name"
    return None


def _left_over(results: Path) -> bool:
    """Whether a directory has nothing but what a killed `iosweep ingest` leaves before there is a campaign."""
    try:
        names = safe_paths.names(results, "")
    except OSError:
        return False
    return all(name in (lock.NAME, ingested.RAW) or safe_paths.TEMPORARY.fullmatch(name) for name in names)


def _within(results: Path, path: Path) -> bool:
    return path.is_dir() and path.resolve() in results.resolve().parents


def _print_reasons(what: str, became: str, reasons: Mapping[str, int]) -> None:
    if not reasons:
        return
    prose(f"{human_count(sum(reasons.values()), what)} {became}:")
    for reason, count in Counter(reasons).most_common(_SHOWN):
        prose(f"  {count:,}: {reason}")
    if (more := len(reasons) - _SHOWN) > 0:
        prose(f"  and {human_count(more, 'more reason')}")


def _print_io500(runs: Iterable[Io500Run]) -> None:
    """Both scores of each run of IO500, and the phases whose two figures differ; the page has all."""
    for run in runs:
        published = f"published score {run.published.total:.6g}" if run.published else "no published score"
        own = f"from its outputs {run.score.total:.6g}" if run.score else "none from its outputs"
        prose(f"IO500 in {run.directory or '.'}: {published}, {own}")
        for text in (*(f"{one.phase}: {one.difference}" for one in run.figures if one.difference), *run.remarks):
            prose(f"  {text}")
