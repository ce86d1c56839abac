"""The sentences of reports, made from plain data."""
