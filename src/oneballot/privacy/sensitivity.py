"""How far the numbers that a method releases move if one unit changes: a row, or all rows of an ID."""

from __future__ import annotations

from dataclasses import replace

from ..types import Numbers
from .releases import touches_two_subsets
from .settings import PrivacySettings


def of_a_unit(numbers: Numbers, privacy: PrivacySettings, stable_ids: bool) -> Numbers:
    """The sensitivity for the unit and the adjacency of the election, for whatever replaces the unit.

    Squared distances of numbers and those beside them add up, because they are different coordinates.
    """
    if numbers.beside is not None:
        own, other = (of_a_unit(each, privacy, stable_ids) for each in (replace(numbers, beside=None), numbers.beside))
        return replace(own, add_remove=own.add_remove + other.add_remove, replaced=own.replaced + other.replaced)
    numbers = _for_each_id(numbers, privacy, stable_ids)
    if privacy.level != "L2":
        return numbers
    if numbers.in_subsets and touches_two_subsets(privacy.adjacency, stable_ids=stable_ids):
        return replace(numbers, replaced=4 * numbers.replaced)  # two teachers' numbers change: twice the distance
    if privacy.adjacency == "swap":
        # One may leave one party while the other comes to another party.
        return replace(numbers, replaced=max(numbers.replaced, 2 * numbers.add_remove))
    return numbers


def _for_each_id(numbers: Numbers, privacy: PrivacySettings, stable_ids: bool) -> Numbers:
    """The sensitivity for all rows of an ID, of which at most m = rows_per_id are summed.

    m rows that come or go move the sums at most m times as far as one; m rows that are replaced, too, since they can be
    paired with the new ones, and a row without a partner comes or goes. The new rows may have another ID, so a swap
    costs the same. In subsets an ID is in one of them, whatever the number of its rows.
    """
    if privacy.level != "L2" or not stable_ids or numbers.in_subsets:
        return numbers
    most = (privacy.rows_per_id or 1) ** 2
    replaced = max(numbers.replaced, numbers.add_remove)
    return replace(numbers, add_remove=most * numbers.add_remove, replaced=most * replaced)


def squared_shift(numbers: Numbers, privacy: PrivacySettings) -> float:
    return float(numbers.add_remove if privacy.adjacency == "add-remove" else numbers.replaced)
