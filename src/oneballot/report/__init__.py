"""Reports: plots of data, results and privacy. The simulation, the demo and the command line import it."""
