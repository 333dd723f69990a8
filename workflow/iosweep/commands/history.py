"""`iosweep history`: campaigns of one configuration over time, as nightly runs make them."""

from __future__ import annotations

import itertools
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from iosweep.analysis import comparison, formats
from iosweep.analysis import history as words
from iosweep.analysis.comparison import NamedCampaign
from iosweep.analysis.history import History, groups, history, unlike
from iosweep.analysis.summary import summarize_campaign
from iosweep.commands import campaigns
from iosweep.commands.terminal import Printer, prose, say, table, write_output
from iosweep.errors import CommandError, ExitCode
from iosweep.text import some

#: The smallest loss that matters, as a share.
_AT_LEAST = 0.03
#: So many campaigns are listed, and so many that are left out for one reason.
_NAMED, _LEFT_OUT = 3, 20


def add_arguments(parser: ArgumentParser) -> None:
    several = f"{campaigns.NAMED}; or a directory that has such results"
    parser.add_argument("campaign", nargs="+", metavar="DIR", help=several)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that opens without a network")
    least = "the smallest loss that matters; default: 3%%"
    parser.add_argument("--at-least", type=campaigns.share, metavar="SHARE", default=_AT_LEAST, help=least)
    lost = "exit with 1 if the last change of a headline was a loss that matters"
    parser.add_argument("--fail-on", choices=("regression",), help=lost)


def run(arguments: Namespace) -> int:
    """Exit codes: 0 shown; 1 what `--fail-on` names was found; 2 nothing compares."""
    grouped = groups(_dated(arguments.campaign))
    if not grouped:
        raise CommandError("none of the campaigns has a measured repetition with a date", ExitCode.USAGE)
    shown, *others = grouped
    if len(shown) == 1:
        why = "no two of them measured the same points on one target" if others else "one campaign is no history"
        raise CommandError(f"{why}: {some([alike[0].name for alike in grouped], _NAMED)}", ExitCode.USAGE)
    left_out: dict[str, list[str]] = {}
    for one in itertools.chain(*others):
        left_out.setdefault(unlike(one, shown[0]), []).append(one.name)
    for why, names in left_out.items():
        say(f"left out: {some(names, _LEFT_OUT)}: {why}", file=sys.stderr)
    found = history(shown, arguments.at_least)
    if arguments.html:  # first: whoever reads the text may stop before its end
        from iosweep.report import comparisons  # late: most runs write none

        write_output(arguments.html, lambda: comparisons.history_page(found).encode(), ExitCode.USAGE)
    _show(found)
    if arguments.html:
        prose(f"\npage: {arguments.html}")
    return int(arguments.fail_on == "regression" and bool(found.regressions))


def _dated(names: Sequence[str]) -> Iterator[NamedCampaign]:
    """The given campaigns; those that cannot be used are listed on stderr. Raises CommandError."""
    paths = [path for name in names for path in campaigns.find_all(name, ExitCode.USAGE)]
    for results in dict.fromkeys(paths):
        try:
            campaign = campaigns.load_tables(results)
        except CommandError as error:
            say(f"left out: {error}", file=sys.stderr)
            continue
        if any(row.started for row in campaign.rows):
            yield NamedCampaign(results.name, results, campaign, tuple(summarize_campaign(campaign)))
        else:
            say(f"left out: {results} has no measured repetition with a date", file=sys.stderr)


def _show(found: History) -> None:
    prose(words.sentence(found))
    say("")
    whole = table("headline", "where", "last", "level", wrapped=["headline", "where"])
    for line in found.headlines:
        mark = next((comparison.SYMBOLS[step.verdict] for step in reversed(found.steps_of(line))), " ")
        whole.add_row(f"{mark} {line.name}", formats.brief(line.result), line.last, words.level(found, line))
    Printer().print(whole)
    for step in found.steps:
        prose(f"\n{comparison.SYMBOLS[step.verdict]} {words.tell(found, step)}")
    if found.without:
        prose(f"\nfewer than two campaigns have a figure: {'; '.join(found.without)}")
