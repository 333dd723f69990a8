"""`iosweep ingest`: outputs that others made become a campaign, with the same tables and the same report."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from iosweep.commands import campaigns
from iosweep.commands.check import describe
from iosweep.commands.report import make_figures, make_page
from iosweep.commands.tables import making
from iosweep.commands.terminal import prose, say
from iosweep.errors import Busy, CommandError, ExitCode, Obstacle, Refused
from iosweep.files import safe_paths
from iosweep.files.documents import NAME
from iosweep.store import ingested
from iosweep.store.ingested import Ingested, IngestedFacts
from iosweep.store.store import Store
from iosweep.text import human_count
from iosweep.units import human_size

#: So many reasons of each kind are printed.
_SHOWN = 12


def add_arguments(parser: ArgumentParser) -> None:
    outputs = "output of fio, IOR or mdtest, or a directory with such, also of IO500"
    parser.add_argument("path", nargs="+", type=Path, help=outputs)
    parser.add_argument("--as", dest="name", required=True, metavar="NAME", help="name of the campaign")
    parser.add_argument("--replace", action="store_true", help="replace a campaign of that name that was ingested")
    parser.epilog = (
        "Exit codes: 0 a campaign was made, whatever its verdicts (`iosweep check` judges these); 1 nothing usable was"
        " found, and nothing was written; 2 usage."
    )


def run(arguments: Namespace) -> int:
    from iosweep.ingest import foreign_campaign  # late: `--help` does without

    results = campaigns.RESULTS / arguments.name
    if why := _impossible(arguments, results) or _taken(results, arguments.replace):
        raise CommandError(why, ExitCode.USAGE)
    taken, refused = foreign_campaign.collect(arguments.path)
    if not any(content.has_rows for content in taken):
        refused.update(content.without_row for content in taken if content.without_row)
        _print_reasons("file", "not usable", refused)
        say("iosweep: no usable output of fio, IOR or mdtest; nothing was written", file=sys.stderr)
        return 1
    try:
        with Store(results).locked() as note:
            if note:
                say(f"iosweep: {note}", file=sys.stderr)
            if why := _taken(results, arguments.replace):  # another ingest may have just ended
                raise CommandError(why, ExitCode.USAGE)
            document, digest = foreign_campaign.store(results, arguments.name, arguments.path, taken, refused)
            with making("tables", results):
                facts = foreign_campaign.make(results, document, digest, taken)
    except Busy as error:
        raise CommandError(f"{error}, or choose another name", ExitCode.USAGE) from None
    except OSError as error:
        why = f"{error.filename or results} cannot be written: {error.strerror or error}"
        raise CommandError(str(Obstacle(why, safe_paths.remedy(error)))) from None
    _print(results, document, facts)
    return 0


def _print(results: Path, document: Ingested, facts: IngestedFacts) -> None:
    many = ", ".join(f"{count:,} of {tool}" for tool, count in facts.files.items())
    prose(f"{human_count(len(document.files), 'file')} read ({human_size(facts.bytes)}): {many}")
    _print_reasons("file", "not taken", facts.refused)
    _print_reasons("file", "kept, and without a usable result", facts.without_rows)
    _print_reasons("row", "not in the tables", facts.left_out)
    prose(next(describe(campaigns.load_tables(results))))
    prose(f"report: {make_page(results)}")  # last: with thousands of results it takes minutes
    make_figures(results)


def _impossible(arguments: Namespace, results: Path) -> str | None:
    """Why the arguments cannot be used, or None."""
    if not NAME.fullmatch(arguments.name):
        return f"--as {arguments.name}: a name has letters, digits, and `._+-` behind the first"
    if gone := [path for path in arguments.path if not os.path.lexists(path)]:
        return f"{gone[0]}: there is no such file or directory; nothing was read"
    above = results.resolve().parents
    if inside := [path for path in arguments.path if path.is_dir() and path.resolve() in above]:
        return f"{results} would be inside {inside[0]}, which is read: run it elsewhere"
    return None


def _taken(results: Path, replace: bool) -> str | None:
    """Why a name cannot be used, or None."""
    if any(os.path.lexists(results / name) for name in ("points", "plans")):
        return f"{results} has results that were measured: choose another name"
    if ingested.exists(results):
        if replace:
            return None
        return f"{results} was ingested before; --replace replaces it, or choose another name"
    try:
        Store(results).uuid()
    except Refused as error:
        return str(error)
    return None


def _print_reasons(noun: str, fate: str, reasons: Mapping[str, int]) -> None:
    if not reasons:
        return
    prose(f"{human_count(sum(reasons.values()), noun)} {fate}:")
    for reason, count in Counter(reasons).most_common(_SHOWN):
        prose(f"  {count:,}: {reason}")
    if (more := len(reasons) - _SHOWN) > 0:
        prose(f"  and {human_count(more, 'more reason')}")
