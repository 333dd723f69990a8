"""iosweep: from one file that says what to measure to one report that says what a storage system can do."""

__version__ = "0.1.0"
