"""A run: its settings and source, the order of its steps, its inputs and evidence, and what it reports."""
