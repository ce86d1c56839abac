"""A study in, a consensus out: `raters.fuse`, its folder, and its notes."""
