"""What only a GPU uses: `graphs` records steps as CUDA graphs and replays them.

Only `fleet.train` and DOSFL import this folder.
"""
