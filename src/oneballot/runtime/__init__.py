"""Runtime: the scheduler, where trainings run, progress reports, and files that survive a kill.

Imports only errors, types and interfaces; every other package may import it.
"""
