"""A campaign's batch jobs: what is asked of Slurm, the site's profile, and the jobs that wait or run."""
