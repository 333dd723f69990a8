"""IOR's JSON: nested by iteration in 3.3, a flat list without iterations from 4.0 on."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Generator, Iterator
from itertools import pairwise
from typing import Any

from iosweep.tools import wall_clock
from iosweep.tools.ior.records import OPERATIONS, Printed, Result, Run, Total
from iosweep.tools.ior.table_rows import MIB
from iosweep.tools.reading import MOST_JSON

_START = re.compile(r'^\{[ \t]*\r?\n(?=[ \t]*")', re.MULTILINE)
_NEXT = re.compile(r'^\{[ \t]*\r?\n(?=[ \t]*"Version")', re.MULTILINE)
_FACTS = {
    "numTasks": "tasks", "tasksPerNode": "clients per node", "repetitions": "repetitions", "segmentCount": "segments",
    "blockSize": "blocksize", "transferSize": "xfersize", "API": "api", "filePerProc": "fPP",
}  # fmt: skip
#: without these figures cannot be judged
_NEEDED = (
    "transferSize", "blockSize", "segmentCount", "deadlineForStonewall", "readFile", "writeFile", "tasks",
    "repetitions",
)  # fmt: skip


class Inside(str):
    """Text of a damaged document: results in it are not those of another run."""


def pieces(source: str, text: str) -> Iterator[str | list[Run]]:
    """The text in order, with the runs of each JSON document in its place. A damaged document is a run without
    results, followed by its text: what is inside of it, where its end is there, and what follows."""
    if not text.startswith("{") and "\n{" not in text and '": ' not in text:
        yield text  # most logs: these look-ups take a twentieth of the time of the patterns
        return
    # decoded one by one: an error of the decoder counts the lines of all that it was given
    bounds = [0, *(start.start() for start in _NEXT.finditer(text) if start.start()), len(text)]
    rest = ""
    for first, last in pairwise(bounds):
        yield rest
        rest = yield from _documents(source, text[first:last])
    if headless := re.search(r'^[^\S\n]*"(access|bwMiB|Version|operation)": ', rest, re.MULTILINE):
        yield rest[: headless.start()]
        yield [Run(source, "json", problems=("the JSON is damaged: its beginning is not there",))]
        rest = rest[headless.start() :]
        end = rest.rfind('"Finished"') + 1
        yield Inside(rest[:end])
        rest = rest[end:]
    yield rest


def _documents(source: str, text: str) -> Generator[str | list[Run], None, str]:
    """The documents in the text and what is before each; where one is damaged, none follows. Returns what is left."""
    at = 0
    while start := _START.search(text, at):
        yield text[at : start.start()]
        try:
            if len(text) - start.start() > MOST_JSON:
                raise _UnlikeError(f"it has more than {MOST_JSON >> 20} MiB")
            document, at = _DECODER.raw_decode(text, start.start())
            yield runs(source, document)
        except (ValueError, RecursionError) as error:
            damaged = text[start.start() :]
            yield [Run(source, "json", problems=(_why(damaged, error),))]
            end = damaged.rfind('"Finished"') + 1
            yield Inside(damaged[:end])
            yield damaged[end:]
            return ""
    return text[at:]


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object. IOR 3.3 repeats some keys; with another value than before it is lines of two runs."""
    made: dict[str, object] = {}
    for key, value in pairs:
        if key in made and made[key] != value:
            raise ValueError(f"{key} is there twice with different values")
        made[key] = value
    return made


def _no_figure(text: str) -> None:
    raise ValueError(f"{text} is not a figure")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_float=Printed.of, parse_constant=_no_figure)


def _why(damaged: str, error: Exception) -> str:
    if isinstance(error, _UnlikeError):
        return f"the JSON is not read: {error}"
    if '"Finished"' not in damaged:
        return "the JSON is cut: the run did not end"
    if re.search(r'"verbose": [1-9]', damaged):
        return "the JSON is damaged: IOR 4.0 with -v writes it invalid"
    return f"the JSON is damaged (a quote in a path makes it so, too): {str(error)[:120]}, from its beginning on"


def runs(source: str, document: Any) -> list[Run]:
    """The tests of a document, not judged yet. What is not as IOR writes it is a problem of the run."""
    try:
        tests = document["tests"]
        totals: dict[Any, list[Total]] = {}
        for entry in document["summary"]:
            totals.setdefault(entry["TestID"], []).append(_total(entry))
        if not isinstance(tests, list) or not tests or not document["Finished"]:
            raise _UnlikeError("no tests, or not finished")
        dates = [wall_clock.date(str(document.get(name))) for name in ("Began", "Finished")]
        lasted_s = wall_clock.seconds(*dates) if len(tests) == 1 else None
        found = [_test(source, document, test, totals.get(test["TestID"], []), lasted_s) for test in tests]
        if len(document["summary"]) != sum(len(run.totals) for run in found):
            raise _UnlikeError("the summary is of a test that is not there")
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
        return [Run(source, "json", problems=(f"the JSON lacks what is expected: {_lacking(error)}"[:200],))]
    return found


class _UnlikeError(ValueError):
    """What is not as IOR writes it; the message is for the user."""


def _lacking(error: Exception) -> str:
    """What is expected and not there, without the words of an exception."""
    if isinstance(error, _UnlikeError):
        return str(error)
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        return f"`{error.args[0]}`"
    return "a value is not of the kind that IOR writes there"


def _test(
    source: str, document: dict[str, Any], test: dict[str, Any], totals: list[Total], lasted_s: float | None
) -> Run:
    parameters = {key: str(value) for key, value in test["Parameters"].items()}
    options = {key: str(value) for key, value in test["Options"].items()}
    options |= {key: str(document[key]) for key in ("Began", "Machine", "Finished") if key in document}
    options |= {"StartTime": str(test["StartTime"])} if "StartTime" in test else {}
    if missing := [name for name in _NEEDED if name not in parameters and name not in options]:
        raise _UnlikeError(f"no {', '.join(missing)}")
    results: list[Result] = []
    seen: Counter[str] = Counter()
    for number, entry in enumerate(test["Results"]):
        nested = isinstance(entry, list)
        for one in entry if nested else [entry]:
            if one["access"] == "remove":
                continue
            results.append(_result(one, number if nested else seen[one["access"]]))
            seen[one["access"]] += 1
    return Run(
        source=source,
        layout="json",
        version=str(document["Version"]) or None,
        options=options,
        parameters=parameters,
        command=str(document.get("Command line") or "") or None,
        results=tuple(results),
        totals=tuple(totals),
        lasted_s=lasted_s,
    )


def _printed(value: object, scale: float = 1.0) -> Printed:
    if not isinstance(value, Printed):
        raise _UnlikeError(f"{str(value)[:40]} is not a figure")
    return value.times(scale)


def _result(entry: dict[str, Any], iteration: int) -> Result:
    if entry["access"] not in OPERATIONS:
        raise _UnlikeError(f"unknown access {str(entry['access'])[:40]}")
    return Result(
        access=entry["access"],
        iteration=iteration,
        bandwidth_bytes_per_s=_printed(entry["bwMiB"], MIB),
        ops_per_s=_printed(entry["iops"]),
        block_bytes=_printed(entry["blockKiB"], 1024.0),
        transfer_bytes=_printed(entry["xferKiB"], 1024.0),
        open_s=_printed(entry["openTime"]),
        io_s=_printed(entry["wrRdTime"]),
        close_s=_printed(entry["closeTime"]),
        total_s=_printed(entry["totalTime"]),
    )


def _total(entry: dict[str, Any]) -> Total:
    if entry["operation"] not in OPERATIONS:
        raise _UnlikeError(f"unknown operation {str(entry['operation'])[:40]}")
    return Total(
        access=entry["operation"],
        maximum=_printed(entry["bwMaxMIB"], MIB),
        minimum=_printed(entry["bwMinMIB"], MIB),
        mean=_printed(entry["bwMeanMIB"], MIB),
        aggregate_bytes=_printed(entry["xsizeMiB"], MIB),
        facts={fact: str(entry[name]) for name, fact in _FACTS.items() if name in entry},
    )
