"""`oneballot reproduce`: the papers' tables, with their printed figures beside our measurements.

tables/*.py declare each `Table` as rows of lines, each with its experiments and the paper's figure. An experiment with
a seed is a cell. run_cells.py runs cells in processes, or side by side on a GPU; cache.py stores their results;
render.py and plots.py write Markdown, JSON and pictures. The command and benchmarks import this package.
"""
