"""How files are read and written: stored JSON with its digest, safe paths, file systems that hang."""
