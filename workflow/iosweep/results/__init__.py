"""What is on disk: the store, what remains to be measured, checks and verdicts, and the merged tables."""
