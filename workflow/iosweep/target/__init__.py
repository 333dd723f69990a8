"""The file system under test: the campaign's directory and marker, its lock, quota, striping, and the agent."""
