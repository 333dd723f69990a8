"""plain_merge.py RESULTS CSV: what one would write in a hurry: read every record, keep four figures, check nothing."""

import csv
import sys
from pathlib import Path

import msgspec

COLUMNS = ["bandwidth_bytes_per_s", "ops_per_s", "latency_mean_s", "latency_p99_s"]

if __name__ == "__main__":
    with Path(sys.argv[2]).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", *COLUMNS])
        for path in sorted(Path(sys.argv[1]).glob("points/*/*.json")):
            for row in msgspec.json.decode(path.read_bytes())["rows"]:
                writer.writerow([path.name, *map(row["values"].get, COLUMNS)])
