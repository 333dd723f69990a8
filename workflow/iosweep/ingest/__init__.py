"""Outputs that others made: their files, told by content, and the campaign that is made of them."""
