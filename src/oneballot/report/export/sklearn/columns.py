"""A schema as scikit-learn's own transformers: raw columns of a DataFrame in, the schema's features out.

Only importable functions of NumPy and pandas are used beside scikit-learn, so that the pipeline needs no OneBallot.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np

from ....election.cells import MISSING, days_since_1970
from ....election.columns import Category, Column, Date, Number, Tensor, Text
from ....election.schema import Schema
from ....errors import ExportError, MissingExtra

NO_TIME = float(np.iinfo(np.int64).min)
"""NumPy's NaT as a number."""
SPELLINGS = {"true": ("True", "TRUE"), "false": ("False", "FALSE")}
"""How a DataFrame writes booleans."""


def encoder(schema: Schema | None, shape: tuple[int, ...]) -> list[tuple[str, Any]]:
    """The fitted steps of a Pipeline that encode rows `(rows, features)` in float32. Refuse NaN and infinite values.

    Without a schema, or with a single column of arrays, rows are an array.
    """
    finite = ("finite", function(np.asarray_chkfinite, dtype="float32"))
    if schema is None or isinstance(schema.columns[0], Tensor):
        if schema is not None and len(schema.columns) > 1:
            raise ExportError("the schema has a column of arrays beside others, which scikit-learn does not combine")
        argument = "shape" if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else "newshape"
        return [("flatten", function(np.reshape, **{argument: (-1, int(np.prod(shape)))})), finite]
    from sklearn.compose import ColumnTransformer

    parts = [(f"column {i}", *_transformer(column)) for i, column in enumerate(schema.columns, start=1)]
    encode = ColumnTransformer(parts, sparse_threshold=0).fit(_example(schema))
    return [("encode", encode), finite]


def function(called: Any, **arguments: Any) -> Any:
    """A transformer that calls a function with these arguments."""
    from sklearn.preprocessing import FunctionTransformer

    return FunctionTransformer(called, kw_args=arguments or None)


def _transformer(column: Column) -> tuple[Any, Any]:
    """A column's transformer, and how a ColumnTransformer selects the column: as a table or as a series."""
    from sklearn.pipeline import make_pipeline

    if isinstance(column, Number):
        return make_pipeline(*_scaled(column, *column.range)), [column.name]
    if isinstance(column, Date):
        return make_pipeline(*_seconds(), *_scaled(column, *_limits(column))), column.name
    if isinstance(column, Category):
        return make_pipeline(*_one_hot(column)), [column.name]
    if isinstance(column, Text):
        raise ExportError(
            f"column {column.name!r} is text, whose words are hashed in a way that scikit-learn does not have; use "
            "--to mlflow, which then keeps OneBallot inside"
        )
    raise ExportError(f"column {column.name!r} holds arrays beside other columns, which scikit-learn does not combine")


def _scaled(column: Number | Date, low: float, high: float) -> list[Any]:
    """Missing values become the lowest value and a mark; then the range is scaled to 0..1 and clipped."""
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import MinMaxScaler

    impute = SimpleImputer(strategy="constant", fill_value=float(low), add_indicator=True)
    return [*([impute] if column.missing else []), MinMaxScaler(clip=True)]


def _seconds() -> list[Any]:
    """Dates, or their ISO text, as seconds since 1970, NaN where they are missing."""
    from sklearn.impute import SimpleImputer

    return [
        function(pandas().to_datetime, format="ISO8601"),
        function(np.asarray, dtype="datetime64[s]"),
        function(np.asarray, dtype="float64"),
        function(np.expand_dims, axis=1),
        SimpleImputer(missing_values=NO_TIME, strategy="constant", fill_value=float("nan"), keep_empty_features=True),
    ]


def _limits(column: Date) -> tuple[float, float]:
    """The first second, and the end of the last day."""
    first, last = (86400.0 * days_since_1970(day) for day in column.range)
    return first, last + 86400


def _one_hot(column: Category) -> list[Any]:
    """Text, stripped; each spelling of a category has a place, and a matrix adds up the places of a category."""
    from sklearn.preprocessing import OneHotEncoder

    places = {name: i for i, name in enumerate(column.categories)}
    spelled = dict(places)
    for name, place in places.items():
        whole = (f"{name}.0",) if name.removeprefix("-").isdigit() and str(int(name)) == name else ()
        for other in (*whole, *SPELLINGS.get(name, ())):
            spelled.setdefault(other, place)
    if column.missing:
        absent = len(places) if column.missing == "feature" else -1
        for text in sorted(MISSING):
            for other in (text, text.upper(), text.capitalize(), "NaN", "NaT"):
                spelled.setdefault(other, absent)
    matrix = np.zeros((len(spelled), column.width), dtype=np.float32)
    for row, place in enumerate(spelled.values()):
        if place >= 0:
            matrix[row, place] = 1
    encode = OneHotEncoder(
        categories=[np.array(list(spelled), dtype=object)],
        handle_unknown="ignore" if column.outside == "blank" else "error",
        sparse_output=False,
        dtype=np.float32,
    )
    return [function(np.asarray, dtype="str"), function(np.char.strip), encode, function(np.dot, b=matrix)]


def _example(schema: Schema) -> Any:
    """Rows from which the transformers learn the schema's ranges: the lowest, the highest, and missing values."""
    pd = pandas()
    values: dict[str, list[Any]] = {}
    for column in schema.columns:
        if isinstance(column, Number):
            low, high = map(float, column.range)
            values[column.name] = [low, high, float("nan") if column.missing else low]
        elif isinstance(column, Date):
            first, last = (np.datetime64(day, "s") for day in (column.range[0], _next(column.range[1])))
            values[column.name] = [first, last, np.datetime64("NaT") if column.missing else first]
        elif isinstance(column, Category):
            values[column.name] = [column.categories[0]] * 3
    return pd.DataFrame(values)


def _next(day: date) -> date:
    return day + timedelta(days=1)


def pandas() -> Any:
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtra("Exporting to scikit-learn", "sklearn") from None
    return pd
