"""The fleet trains many torch networks as one. Learners, formats, methods and the lab use it. It needs torch and numpy.

    models/   architectures and custom modules, their inputs and initial weights
    train/    engine ─> job ─> wave ─┬─> chain     layers one after the other, all models in one product
                                     └─> stacked   any other module, by vmap
              loop ─> reference      one model after the other in plain torch, which defines the result
    gpu/      CUDA graphs, used only where there is a GPU
    learner   the interface of learners that train such networks
    draws     every random number of a training, the same in a loop and in a fleet

The parameters of all models of a wave are one matrix, with a row for each model. A step gathers each model's batch from
one shared X, and on a GPU many steps are one CUDA graph. Models that are done keep the result of their last step.
The lab extends `Training`, `Job` and `Wave` for training in rounds.
"""
