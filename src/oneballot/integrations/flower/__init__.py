"""Elections over Flower: a ServerApp and a ClientApp that transport ballots, and the files for Flower's commands.

Flower moves bytes only. Casting and tallying are those of `oneballot cast` and `oneballot tally`.
"""

from importlib.util import find_spec

from ...errors import MissingExtra

if find_spec("flwr") is None:
    raise MissingExtra("Flower", "flower")
