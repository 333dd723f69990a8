"""plain_report.py TABLE HTML: what one would write in a hurry: means by point and phase as an HTML table, no figure."""

import sys

if __name__ == "__main__":
    import pandas

    rows = pandas.read_parquet(sys.argv[1])
    columns = ["bandwidth_bytes_per_s", "ops_per_s", "latency_mean_s", "latency_p99_s"]
    rows.groupby(["point", "phase"])[columns].agg(["mean", "std", "count"]).to_html(sys.argv[2])
