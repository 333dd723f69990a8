"""What Slurm says: its commands, with a deadline each, and what their answers mean.

query          questions about jobs, nodes and an allocation, also in the background
messages       requests to many nodes and their answers, over one srun
"""
