"""Publishing a run: checking its tree, writing it in a safe order, reading it back, and removing what nobody needs."""
