"""Studies: what several raters said of the same cases, read from and written to any layout."""
