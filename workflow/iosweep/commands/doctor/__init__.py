"""`iosweep doctor`: find what would be wrong with a campaign before it begins. Changes nothing.

| module | contents |
|---|---|
| `command` | the arguments |
| `this_machine` | what a campaign needs here: configuration, tools, target, space, CPUs |
| `cluster` | `--slurm`: asks Slurm, from a login node |
| `ask_nodes` | starts `node_probe` on nodes with one srun, and collects the answers |
| `node_probe` | collects the facts of a node; also runs where the package is missing |
| `judge_slurm`, `judge_nodes` | answers of Slurm, and of nodes -> findings; pure |
"""
