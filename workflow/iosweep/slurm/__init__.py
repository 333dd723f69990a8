"""What Slurm says: its commands, with a deadline each, and what their answers mean.

query          questions about jobs, nodes and an allocation; raises Unanswered
words          the few cases that only the text of a command distinguishes
poller         asks in the background
job_comment    the comment of a job, which says what it measures
fan_out        messages from many nodes over the output of one srun
broadcast      requests to many nodes over its input
"""
