"""How files are written so that a crash loses nothing, and read safely.

| module | what it does |
|---|---|
| documents.py | JSON with a digest: written whole, checked when it is read |
| safe_paths.py | everything else in a directory of results: no symbolic link is followed, writes are atomic |
"""
