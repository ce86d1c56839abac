"""Networks that learn the truth from raters who disagree; the only package that needs torch."""
