"""The programs that measure: from PATH, or built by Spack.

| module | what it does |
|---|---|
| programs.py | finds programs, their versions and hashes; build documents |
| spack.py | builds with Spack, again where spack.yaml has changed |
"""
