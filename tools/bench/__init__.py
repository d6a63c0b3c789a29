"""The benchmarks behind `scripts/bench NAME`: each prints a table of figures against something of the same run."""
