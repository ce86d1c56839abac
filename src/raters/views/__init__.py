"""What people see: the terminal, texts, plots and reports."""
