"""Learners: model families with their settings, one file each (scikit-learn, XGBoost, LightGBM, kernel, torch).

Modules with a leading underscore are shared code. Learners import formats, the fleet and the runtime; methods,
elections and everything above them import learners through `oneballot.plugins` or the public names.
"""
