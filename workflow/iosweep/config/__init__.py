"""config/sweep.yaml -> validated sweeps. Every error names its file, line, key and value.

| module | what it does |
|---|---|
| sweep_file.py | reads the file: all errors at once, unknown keys with a suggestion, suites, limits of the plan |
| yaml_lines.py | YAML with the line of every value |
| models.py | typed models of sweeps, made from the tools' tables of options; defaults of repetitions |
| sections.py | typed models of target, limits, CPUs and tools with their defaults; types of single values |
| criteria.py | `accept`: selectors of figures and thresholds |
| sweeps.py | the validated configuration, as the plan takes it |

The suites are in config/suites/ of the repository.
"""
