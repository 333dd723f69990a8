"""The programs that measure: from PATH, or built by Spack."""
