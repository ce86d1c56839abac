"""What to label next: `raters.suggest`."""
