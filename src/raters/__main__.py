"""`python -m raters`: the command line."""

from raters.cli import main

if __name__ == "__main__":
    main()
