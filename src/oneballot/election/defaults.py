"""The method and the learners of an election that does not name them, and those that a party chooses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from .. import plugins
from ..errors import ElectionError
from ..interfaces import Learner, Method
from .targets import Target, supports


def choose_method(given: Any, level: str, target: Target, *, resumes: bool) -> Method:
    """The method that was given. By default the open ensemble at L0, and FedKT where that is not possible."""
    method = given
    if given is None:
        ensemble = plugins.find("methods", "ensemble")
        opened = level == "L0" and supports(ensemble, target) and not resumes
        method = ensemble(weights="open") if opened else "fedkt"
    return plugins.instance("methods", method)  # type: ignore[no-any-return]


def resolve_learners(
    method: Method, learner: Any, learners: Mapping[str, Any], rows: tuple[tuple[int, ...], Any]
) -> tuple[Learner, dict[str, Learner]]:
    """The learner of all roles, and those of single roles.

    rows: the shape and type of a row. A method names learners for roles that the election leaves open
    (`default_learners`). A learner of all roles replaces them, except that of claim models, which tell rows apart
    whatever the party's own model is.
    """
    shape, dtype = rows
    chosen = {role: plugins.instance("learners", each) for role, each in learners.items()}
    for role, settings in method.default_learners(shape, dtype == np.int32).items():
        if role not in chosen and (learner is None or role == "claim"):
            rest = {name: value for name, value in settings.items() if name != "name"}
            chosen[role] = plugins.find("learners", settings["name"])(**rest)
    default = plugins.find("learners", "sklearn")() if learner is None else plugins.instance("learners", learner)
    return default, chosen


def main_role(roles: Collection[str]) -> str:
    """The role whose learner trains the final model or, without one, its members; also a party's that stays alone."""
    return next((role for role in ("final", "local", *sorted(roles)) if role in roles), "final")


def chosen_learners(learners: Mapping[str, Learner], choice: Mapping[str, Any]) -> dict[str, Learner]:
    """The learner of each role, after a party's choice; "all" stands for all roles but the final one."""
    given = {role: plugins.instance("learners", each) for role, each in choice.items()}
    roles = learners.keys() - {"final"}
    if unknown := sorted(given.keys() - roles - {"all"}):
        known = ", ".join(sorted(roles))
        raise ElectionError(f"a party cannot choose the learner {', '.join(unknown)}; it can choose all, {known}")
    return {**learners, **{role: given.get(role, given.get("all", learners[role])) for role in roles}}
