"""Reproducible benchmarks: `./windmill bench NAME`. Each prints a table and writes bench/results/<name>.json."""
