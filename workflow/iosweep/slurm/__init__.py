"""What Slurm says: its commands, with a deadline each, and what their answers mean.

query          questions about jobs, nodes and an allocation; raises Unanswered
poller         asks in the background
fan_out        messages from many nodes over the output of one srun
broadcast      requests to many nodes over its input
"""
