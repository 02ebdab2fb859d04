"""Formats: how models are written to bytes and read back safely, one file each.

`check` validates untrusted bytes without building anything, and `load` runs in the sandbox unless the format is inert.
Formats import the fleet's architectures and nothing above; learners, methods, ballots and the server import formats.
"""
