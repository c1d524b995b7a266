"""``python -m supquant.cli``."""

from supquant.cli import main

main()
