"""Truth from labels alone: one file per method."""
