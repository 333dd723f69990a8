"""Which programs measure: those on PATH, or those that Spack builds."""
