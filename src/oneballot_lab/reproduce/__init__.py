"""The tables of the papers, theirs beside ours: what is measured, kept, run in parallel, and written down.

tables/*.py ─> Table: rows of cells, beside the paper's figures
cells ─> run (a process a core, or a device) ─> kept, a file a cell and seed ─> Markdown, JSON, a picture
"""
