"""`iosweep doctor`: what would be wrong with a campaign, before it is begun. Changes nothing.

here.py looks at the CPUs of this node, or of those of the allocation that it is called in; cluster.py (`--slurm`) at a
cluster, from a login node.
"""
