"""`iosweep doctor`: find what would be wrong with a campaign before it begins. Changes nothing.

| module | contents |
|---|---|
| `command` | the arguments |
| `this_machine` | checks this machine, and the CPUs of all nodes of the job that it is called in |
| `cluster` | `--slurm`: asks Slurm, from a login node |
| `campaign`, `spack_tools` | what a campaign needs on a machine: configuration, target, space; tools |
| `ask_nodes` | starts `node_probe` on nodes with one srun, and collects the answers |
| `node_probe` | collects the facts of a node; also runs where the package is missing |
| `judge_slurm`, `judge_nodes` | answers of Slurm, and of nodes -> findings; pure |
"""
