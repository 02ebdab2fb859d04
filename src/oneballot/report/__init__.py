"""Metrics and plots of results. The simulation, the demo and the command line import it."""
