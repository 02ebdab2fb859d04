"""What only a GPU uses: Triton kernels and recorded CUDA graphs.

`conv_kernels` and `norm_kernels` are Triton kernels for all models at once; `vmapped` puts them under vmap and reports
whether Triton works; `graphs` records and replays steps. Only `fleet.train` and DOSFL import this folder, and only the
two kernel modules import Triton, when they are first used.
"""
