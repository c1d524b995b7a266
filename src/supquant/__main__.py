"""``python -m supquant`` runs the command."""

from supquant.cli import main

if __name__ == "__main__":
    main()
