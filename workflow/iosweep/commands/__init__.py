"""The commands of `iosweep`, a module each: `add_arguments(parser)`, and `run(arguments)`, which returns the exit code.

`cli` finds the module of a command and prints what ended it. Shared: `campaigns` (campaigns by name, their tables),
`terminal` (what is printed for a person, and JSON).
"""
