"""What Slurm says: its commands, with a deadline each, and what their answers mean."""
