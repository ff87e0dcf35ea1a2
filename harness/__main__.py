"""`python -m harness`: the command line."""

from harness.cli import main

if __name__ == "__main__":
    main()
