"""One machine: its CPUs, which of them are reserved, placement and pinning, processes, sampling, facts."""
