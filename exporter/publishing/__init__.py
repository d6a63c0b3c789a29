"""How a run becomes the published one: the order of writing, what is refused, reading back, and what is removed."""
