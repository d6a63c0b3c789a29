"""Where a tree is kept: one small interface, a folder behind it, and a memory for dry runs and tests."""
