"""The commands of `iosweep`: a module has `add_arguments(parser)` and `run(arguments)`, which returns the exit code.

| module | contents |
|---|---|
| `cli` | the table of commands; runs one, and prints what ended it |
| `campaigns` | finds a campaign by name or path; arguments that several commands have |
| `terminal`, `safe_console` | printing for a person: wrapped text, tables, progress, JSON; no control characters |
| `plan`, `plan_table` | `iosweep plan`: a configuration as JSON or commands; as a table |
| `doctor/` | `iosweep doctor`: checks of this machine, or of a cluster |
| `watch/` | `iosweep watch`: progress, as a snapshot and as a screen |
| `outcome` | what became of a campaign, for the next three |
| `check`, `show` | verdicts of campaigns; results of one |
| `compare` | `iosweep compare`: campaigns against the first one |
| `accept` | `iosweep accept`: criteria of acceptance, decided; in a terminal, as JSON and JUnit XML |
| `measure`, `tables`, `report` | what the rules of these names call; `iosweep report` |
| `history` | campaigns of one configuration over time |
| `rerun`, `clean` | open stored repetitions again; remove files from the target |
| `parse`, `parsed_formats`, `reading_bar` | outputs of tools as JSON or a table; progress while files are read |
| `tools` | `iosweep tools`: list the benchmark tools; build them, for a rule |
| `generate` | the schema and the generated parts of the documentation |
"""
