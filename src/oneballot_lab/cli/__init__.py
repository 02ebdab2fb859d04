"""Commands of the lab, registered with `oneballot` through the entry-point group `oneballot.commands`."""

import oneballot.cli  # noqa: F401  (it imports these commands, so it comes first)
