"""Commands that the rules of the workflow call; people have no use for them."""
