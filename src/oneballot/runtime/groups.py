"""Requests that are answered together: what they must have in common, and the one call that answers them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..interfaces import Learner, Work
from ..sparse import is_sparse, rows_for
from ..types import Fit, Stack, Task
from .join import join_rows


@dataclass(frozen=True)
class GroupKey:
    """Equal for requests that are answered together. Learners need not be hashable, nor comparable."""

    kind: type
    learner: Any
    details: Any

    def __eq__(self, other: object) -> bool:
        try:
            if not isinstance(other, GroupKey) or (self.kind, self.details) != (other.kind, other.details):
                return False
            if self.learner is other.learner:
                return True
            # 1 == 1.0 == True, but max_features = 1 is one feature and max_features = 1.0 all of them.
            return bool(self.learner == other.learner) and repr(self.learner) == repr(other.learner)
        except Exception:  # settings that hold arrays or tensors
            return False


def group_key(request: Fit | Work, learner: Any) -> GroupKey:
    """Fits: the learner, the shape and type of rows, the number of classes, `keep`. Works: their class and key."""
    if isinstance(request, Work):
        return GroupKey(type(request), learner, request.key)
    parts = request.X.parts if isinstance(request.X, Stack) else (request.X,)
    rows = parts[0].shape[1:], np.result_type(*(part.dtype for part in parts)), any(map(is_sparse, parts))
    return GroupKey(Fit, learner, (*rows, request.classes, request.keep))


class WrongNumber(TypeError):
    """A learner or a work returned more or fewer answers than there were requests."""


def describe_group(request: Fit | Work, learner: Any) -> str:
    """What requests of a group are called in messages."""
    kind = "Fit" if isinstance(request, Fit) else type(request).__name__
    return f"{kind} requests for the {request.role} learner ({_name(learner)})"


def answer_group(learner: Any, requests: Sequence[Any], names: Sequence[str]) -> Sequence[Any]:
    """The answer to each of these requests, which have equal keys, by one call of the learner."""
    if isinstance(requests[0], Work):
        answers = requests[0].together(learner, requests)
        _check_number(f"{type(requests[0]).__name__}.together", answers, len(requests), "answers", "requests")
        return answers
    X, where = join_rows([fit.X for fit in requests])
    tasks = [
        task.relocated(rows, _label(task, name, f"{fit.role} {i}"))
        for fit, name, rows in zip(requests, names, where, strict=True)
        for i, task in enumerate(fit.tasks, start=1)
    ]
    models = learner.fit_many(rows_for(learner, X), tasks, requests[0].classes, keep=requests[0].keep)
    _check_number(f"fit_many of the learner {_name(learner)}", models, len(tasks), "models", "tasks")
    ends = [0]
    for fit in requests:
        ends.append(ends[-1] + len(fit.tasks))
    return [models[a:b] for a, b in pairwise(ends)]


def _check_number(called: str, answers: Any, expected: int, what: str, asked: str) -> None:
    try:
        found = len(answers)
    except TypeError:
        raise WrongNumber(f"{called} returned {type(answers).__name__}; expected {expected} {what}") from None
    if found != expected:
        raise WrongNumber(f"{called} returned {found} {what} for {expected} {asked}")


def _name(learner: Any) -> str:
    return str(learner.name) if isinstance(learner, Learner) else type(learner).__name__


def _label(task: Task, name: str, position: str) -> str:
    """What errors call a task: its own name, or its role and number, after the name of the party."""
    own = position if task.label == Task.label else task.label
    return f"{name}, {own}" if name else own
