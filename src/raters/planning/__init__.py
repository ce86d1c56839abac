"""What to label next."""
