"""`iosweep doctor`: find what would be wrong with a campaign before it begins. Changes nothing.

| module | contents |
|---|---|
| `command` | the arguments |
| `this_machine` | what a campaign needs here: configuration, tools, target, space, CPUs |
| `nodes` | what it needs of the nodes of the Slurm job that we run in |
| `cluster` | `--slurm`: asks Slurm, from a login node |
| `job` | `--slurm`: a job like the campaign's that runs the doctor on its nodes |
| `judge_slurm` | answers of Slurm -> findings; pure |
"""
