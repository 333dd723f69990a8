"""Tools from Spack: spack.yaml -> what is built -> tools.json, which the jobs read. Jobs never call Spack."""
