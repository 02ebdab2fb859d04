"""The engine that trains many torch models as one. It needs torch and numpy alone.

    recipe, draws ─┬─> reference.fit_one   one model in plain torch: what every other file must agree with
                   └─> engine ─> wave ─┬─> chain     layers one after the other, all models in one product
                                       └─> stacked   any other module, by vmap

Parameters of all models of a wave are one matrix, a row a model. A step gathers each model's own batch from one shared
X, and on CUDA many steps are one graph. Models that are done are left behind, exactly where their last step left them.
A user's own module is tried on two rows first (`own`), and on CUDA compared with itself under vmap (`probe`).
"""
