"""How far raters agree, and what a fusion says of each of them."""
