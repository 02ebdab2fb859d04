"""Data: reads tables from files, checks rows, and splits rows among simulated parties.

Imports only errors and types; every other package may import it.
"""
