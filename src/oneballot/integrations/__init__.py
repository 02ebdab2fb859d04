"""Integrations: elections over other frameworks' transports.

Each package here needs an extra and uses the party's and the server's public functions. Only the command line imports
it.
"""
