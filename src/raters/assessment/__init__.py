"""How far raters agree, on masks and on tables of class labels."""
