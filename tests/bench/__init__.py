"""The benchmarks behind `scripts/bench`; each figure is measured against something named in the same run."""
