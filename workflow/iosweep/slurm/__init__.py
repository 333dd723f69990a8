"""What Slurm says: its commands, with a deadline each, and what their answers mean.

query          questions about jobs, nodes and an allocation, also in the background
"""
