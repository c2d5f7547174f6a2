"""`python -m gatepilot.experiments`: the same as the command `gatepilot`."""

from .cli import main

main()
