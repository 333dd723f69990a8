"""iosweep: from one file that says what to measure to one report that says what a storage system can do.

The rooms are the folders; beside them:

| module | what it does |
|---|---|
| dag.py | what the Snakefile asks: which allocations have repetitions left, whether tables have to be made again |
| errors.py | exceptions, exit codes, known causes of failures with their remedies |
| histograms.py | `Histogram` of latencies and its percentiles, `Series` over time, `NodeRate` |
| hostlist.py | w1,w2,w3 <-> w[1-3] |
| text.py | "did you mean", counted nouns, printable text |
| units.py | sizes and durations: read from a configuration, written for a person |
"""

__version__ = "0.1.0"
