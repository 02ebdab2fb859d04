"""Networks, without their training: architectures by name, their layers, their inputs and initial weights.

Learners, formats and methods import this folder. It imports nothing from `fleet.train` or `fleet.gpu`.
"""
