"""`python -m eventsieve` is the `eventsieve` command."""

from eventsieve.cli.app import main

if __name__ == "__main__":
    main()
