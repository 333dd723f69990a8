"""`iosweep watch`: a campaign while it waits and runs, from the login node."""
