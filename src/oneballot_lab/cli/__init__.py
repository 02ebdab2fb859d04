"""Commands of the lab, registered with `oneballot` through the entry-point group `oneballot.commands`."""
