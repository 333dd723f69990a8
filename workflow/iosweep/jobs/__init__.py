"""A campaign's batch jobs: what is asked of Slurm, the site's profile, and the jobs that wait or run.

In the order of a run:

    profile        what the site's profile says: partition, account, limits, launcher ..., by the number of nodes
    submission     what an allocation asks Slurm for, the command of sbatch, and what Slurm's refusals mean
    pending        tries a submission, waits for jobs of an earlier run, explains and ends jobs that wait; which jobs
                   work on a campaign (`iosweep watch`)
    attempts       what the next job of an allocation asks for after the last one failed
"""
