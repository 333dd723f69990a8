"""What must come of every sample of mdtest (samples/mdtest/expected.json): the figures, or why there are none.

The figures are copied from the files' columns, not made by the reader. Those of `own_*` samples are real runs, too.
"""

import json
from pathlib import Path

Row = tuple[float, float, float, float]  # Max, Min, Mean, Std Dev, in the table's order

_FILE = Path(__file__).resolve().parents[1] / "samples/mdtest/expected.json"
_EXPECTED = json.loads(_FILE.read_text())
#: sample -> its runs in order -> the rows of operations that were run
GOOD: dict[str, list[dict[str, Row]]] = {
    sample: [{name: tuple(row) for name, row in run.items()} for run in runs]
    for sample, runs in _EXPECTED["good"].items()
}
#: Samples of which single rows are no rate of the run (3.3.0: the ranks' own rates differ).
DOUBTFUL: dict[str, set[str]] = {sample: set(names) for sample, names in _EXPECTED["doubtful"].items()}
#: sample -> parts of the reasons, all of which must be there without the exit code, too
BAD: dict[str, list[str]] = _EXPECTED["bad"]
