"""`iosweep export`: a campaign as one archive; with --anonymize a copy without the names of the site, checked."""

from __future__ import annotations

import os
import re
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from iosweep.commands import campaigns, outcome, report
from iosweep.commands.terminal import say, to_json, working
from iosweep.errors import CommandError, ExitCode, Unusable
from iosweep.files import documents, safe_paths, tar_archive, temporary_directory
from iosweep.node.stopping import Stopped, stoppable
from iosweep.plan.model import plan_files, read_plan
from iosweep.results import campaign_lock, current_rates, merged_tables, temporary_files
from iosweep.results.anonymous_names import CAMPAIGN, Names
from iosweep.results.campaign_documents import FILES, ClaimedTarget
from iosweep.text import human_count, some
from iosweep.units import human_size

#: What stays here: who holds the results, what runs left, the rates of now, what merge keeps for itself, and where the
#: campaign is on this target, which whoever has that file may remove.
_STAYS = (
    *(campaign_lock.NAME, "scratch", "logs", "repairs", merged_tables.LIVE, merged_tables.JUDGED, current_rates.NAME),
    *(f"{FILES[ClaimedTarget]}.json", tar_archive.CHECKSUMS),
)
_NAMED = 5


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("campaign", help=campaigns.NAMED)
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help=f"the archive, {' or '.join(tar_archive.COMPRESSIONS)}; default: CAMPAIGN.tar.zst in this directory",
    )
    parser.add_argument(
        "--anonymize", action="store_true", help="replace hosts, paths, users, domains, addresses and the campaign"
    )
    parser.add_argument(
        "--hide", action="append", default=[], metavar="NAME", help="with --anonymize: another name to be replaced"
    )
    parser.add_argument(
        "--common",
        action="append",
        default=[],
        metavar="WORD",
        help="with --anonymize: a name that is also a common word, and is replaced only where a host, a user or a path"
        " must be",
    )
    parser.add_argument(
        "--key", type=Path, metavar="FILE", help="with --anonymize: write what stands for which name, to be kept here"
    )


def run(arguments: Namespace) -> int:
    if not arguments.anonymize and (arguments.hide or arguments.common or arguments.key):
        arguments.refuse("--hide, --common and --key go with --anonymize")
    if (results := campaigns.find(arguments.campaign, writes=True)) is None:
        return 1
    if arguments.anonymize:
        campaigns.refuse_ingested(results, "--anonymize cannot replace the names in them, which nothing tells")
    _check(results)
    name = CAMPAIGN if arguments.anonymize else merged_tables.about(results).campaign
    archive: Path = arguments.output or Path(f"{name}.tar.zst")
    if tar_archive.compression(archive.name) is None:
        arguments.refuse(f"--output {archive}: the name must end with {' or '.join(tar_archive.COMPRESSIONS)}")
    key: Path | None = arguments.key
    if key and os.path.lexists(key):
        raise CommandError(f"--key {key} exists, and may be the key of another archive: give another name, or move it")
    try:
        with stoppable():
            temporary_files.remove_of(archive)
            if arguments.anonymize:
                _export_anonymous(arguments, results, archive, key)
            else:
                _pack(results, name, archive)
    except Stopped as error:
        raise CommandError(f"stopped by {error}: {archive} is not written", ExitCode.INTERRUPTED) from None
    except Unusable as error:
        raise CommandError(f"nothing was exported: {error}") from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        more = f"; {cure}" if (cure := safe_paths.remedy(error)) else ""
        raise CommandError(f"{archive} is not written: {where}{error.strerror or error}{more}") from None
    return 0


def _export_anonymous(arguments: Namespace, results: Path, archive: Path, key: Path | None) -> None:
    """The key is written first: without it nobody knows again what an archive is of."""
    with temporary_directory.made("export") as place:
        names, looked_in = _anonymized(arguments, _plan(results), results, place / CAMPAIGN)
        if key:
            _write_key(key, names)
        try:
            _pack(place / CAMPAIGN, CAMPAIGN, archive)
        except BaseException:
            if key:
                safe_paths.remove(key.parent, key.name)
            raise
    _tell(names, looked_in)
    if key:
        say(f"{key}: what is replaced by what; keep it here")


def _check(results: Path) -> None:
    """Raises CommandError where something is damaged or not up to date."""
    again = f"`iosweep report {shlex.quote(str(results))}` makes the tables and the report"
    if lost := outcome.no_plan(results):
        raise CommandError(lost)
    found = outcome.of(results)
    if found.verdicts is None or not (results / merged_tables.REPORT).exists():
        raise CommandError(f"{results} has no tables or no report yet; {again}")
    if found.stale:
        raise CommandError(f"{results} has changed since its tables were made; {again}")
    if found.damaged:
        raise CommandError("\n".join(["nothing is exported, because files are damaged:", *found.damaged]))


def _plan(results: Path) -> Path:
    """The file of the plan that the tables are of."""
    digest = merged_tables.about(results).plan_digest
    return next((file for file in plan_files(results) if file.stem == digest), plan_files(results)[-1])


def _pack(results: Path, name: str, archive: Path) -> None:
    files = list(tar_archive.files_below(results, _STAYS))
    with working(f"packing {results} ..."):
        size = tar_archive.pack(results, files, name, archive)
    say(f"{archive}: {human_count(len(files), 'file')}, {human_size(size)}; unpacks to {name}/")


def _anonymized(arguments: Namespace, plan: Path, results: Path, into: Path) -> tuple[Names, int]:
    """Write an anonymous copy of the results with tables and report; returns its names, and the number of files that
    were searched for them. Raises CommandError where it is not one."""
    from iosweep.report import html
    from iosweep.results import anonymous_check, anonymous_store

    constant = html.constant_texts()
    words = frozenset(word.lower() for text in constant for word in re.findall(r"[A-Za-z]{3,}", text))
    names = anonymous_store.names_of(read_plan(plan), words | {word.lower() for word in arguments.common})
    for name in arguments.hide:
        try:
            names.hide(name)
        except ValueError as error:
            raise CommandError(f"nothing was exported: --hide {name}: it {error}, which cannot be replaced") from None
    into.mkdir()
    with working(f"replacing the names in {results} ..."):
        try:
            made = anonymous_store.copy(plan, results, into, names)
        except documents.Damaged as error:
            raise CommandError(f"nothing was exported: {error}{documents.cure(error.path)}") from None
    report.make_tables(made, into)
    report.make_page(into)
    if (results / merged_tables.FIGURES_DONE).exists():
        report.make_figures(into)
    if differ := anonymous_check.differences(results, into):
        raise CommandError(
            f"nothing was exported: without its names the campaign has other figures: {some(differ, _NAMED)};"
            f" `iosweep report {shlex.quote(str(results))}` makes the tables of this version first"
        )
    with working("looking for names that are left ..."):
        files = list(tar_archive.files_below(into))
        left = anonymous_check.names_left(into, files, names.left_in(), constant)
    if left:
        found = some([f"`{name}` in {file}" for file, name in left.items()], _NAMED)
        raise CommandError(
            f"nothing was exported: names are left: {found}. --hide WORD replaces a word that has the name in it;"
            " --common NAME says that it is a common word there"
        )
    return names, len(files)


def _tell(names: Names, files: int) -> None:
    """Print what was replaced, and what was checked."""
    counts = Counter(kind for kind, _, _ in names.replacements())
    replaced = [human_count(count, kind, _MANY.get(kind)) for kind, count in sorted(counts.items())]
    say(f"replaced: {', '.join([*replaced, 'the name of the campaign'])}")
    number = human_count(len(set(names.originals())), "name")
    say(f"searched {human_count(files, 'file')} for {number}, as docs/exporting.md describes: none is left")
    if careful := names.careful():
        listed = some([f"{kind} `{name}`" for kind, name in careful], _NAMED)
        say(
            "not searched for, and replaced only where a host, a user or a path must be, because they are short or"
            f" common words: {listed}"
        )
    say(f"kept: {_KEPT}", file=sys.stderr)


def _write_key(key: Path, names: Names) -> None:
    """Write what is replaced by what, for its owner alone."""
    rows: Sequence[dict[str, str]] = [{"kind": k, "name": n, "replaced_by": r} for k, n, r in names.replacements()]
    with safe_paths.folder(key.parent) as place, place.replaced(key.name) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(to_json(rows).encode())


#: Kind -> its plural.
_MANY = {"part of a path": "parts of paths", "address": "addresses", "process": "names of processes"}
#: What anonymous results still have.
_KEPT = (
    "names of sweeps and of variables of the environment, titles of references, dates, job numbers, hardware, versions"
    " and figures; comments and descriptions of the configuration, PATH, time zone and language are left out"
)
