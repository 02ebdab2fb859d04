"""`python -m oneballot` is `oneballot`."""

from .cli import main

main()
