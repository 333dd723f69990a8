"""config/sweep.yaml -> validated sweeps. Every error names its file, line, key and value."""
