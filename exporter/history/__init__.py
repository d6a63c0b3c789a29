"""The history: a Parquet file for each run, the manifest that names these files, and what is computed from them."""
