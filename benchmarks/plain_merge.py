"""plain_merge.py RESULTS CSV: what one would write in a hurry: read every archive, keep four figures, check nothing."""

import csv
import io
import sys
import zipfile
from pathlib import Path

import msgspec

with Path(sys.argv[2]).open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["file", "bandwidth_bytes_per_s", "ops_per_s", "latency_mean_s", "latency_p99_s"])
    for path in sorted(Path(sys.argv[1]).glob("points/*/*.zip")):
        with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
            read = msgspec.json.decode(archive.read("rand_read.stdout"))["jobs"][0]["read"]
        clat = read["clat_ns"]
        writer.writerow(
            [path.name, read["bw_bytes"], read["iops"], clat["mean"] / 1e9, clat["percentile"]["99.000000"] / 1e9]
        )
