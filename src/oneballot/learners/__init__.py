"""Learners: model families with their settings, one file each (scikit-learn, XGBoost, LightGBM, kernel, torch).

Modules with a leading underscore are shared code. Learners import formats, the fleet and the runtime; methods,
elections and everything above them import learners through `oneballot.plugins` or the public names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._training import fit_each as fit_each

__all__ = ["fit_each"]


def __getattr__(name: str) -> Any:
    """Import `fit_each` when it is first used: plug-ins are listed without importing NumPy."""
    if name != "fit_each":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._training import fit_each

    return fit_each
