"""`iosweep tools`: build with Spack, mirror for a cluster without a network, list."""
