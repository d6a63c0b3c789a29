"""The history: a Parquet file for each run, the manifest that names these files, and what is computed from them.

- A run's file: `parquet`. Which files belong to the history: `manifest`.
- From runs to time buckets: `time_buckets` defines them, `buckets` computes one, `series` carries open ones from run to
  run, and `closed_buckets` divides closed ones into documents and pages.
- From two observations to what was paid: `realized`. From closed buckets to the last day, week and month: `periods`.
- Tables at lasting URLs: `rollups`, `changes_table`, `liquidations_table`, `risk_table`, `days_csv`; columns for plots
  in `approximate`, CSV in `spreadsheet`.
- For people with a copy: `export`.
"""
