"""Runtime: where trainings run, progress reports, and files that survive a kill.

Imports only errors; every other package may import it.
"""
