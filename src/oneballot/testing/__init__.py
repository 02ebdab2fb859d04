"""Conformance suites: what any method, learner, format or box must hold, built in or from another package.

Each `check_…` runs a plug-in on small built-in data. If something is missing it raises one `ConformanceError`, which
lists all of it in sentences; otherwise it returns nothing. The suites need no test framework, and the product itself
never imports them. `oneballot_lab.testing.check_peer` is the suite of peers.
"""

from __future__ import annotations

from ._box import check_box
from ._format import check_format
from ._learner import check_learner
from ._method import check_method
from ._suite import ConformanceError

__all__ = ["ConformanceError", "check_box", "check_format", "check_learner", "check_method"]
