"""Outputs that others made: their files, told by content; rows and points of them; IO500's own figures beside them."""
