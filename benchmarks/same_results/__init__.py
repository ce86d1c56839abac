"""The parts of `benchmarks/same_results.py`: commands, checkouts that run them, comparisons."""
