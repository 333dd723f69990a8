"""The commands of `iosweep`, one file each."""
