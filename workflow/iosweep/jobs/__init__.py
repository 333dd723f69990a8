"""A campaign's batch jobs: the site's profile, what is asked of Slurm, and the jobs that wait or run.

profile        what the site's profile says, by the number of nodes; the options of sbatch that its keys become
submission     what a job is for and asks, the command of sbatch, its trial, what refusals and endless waits mean
pending        explains and ends jobs that wait; waits for those of an earlier run; those that `iosweep watch` shows
attempts       what the next job of an allocation asks for after the last one failed, and how a run ends
"""
