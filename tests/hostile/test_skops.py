"""Hostile scikit-learn models are refused with a reason, and good ones are still evaluated afterwards."""

import io
import json
import re
import zipfile

import numpy as np
import pytest
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from oneballot.errors import Spoiled
from oneballot.formats.skops import ALLOWED, SklearnModel
from oneballot.server.sandbox.__main__ import run_in_child
from oneballot.types import Blob

from .models import (
    CLASSES,
    FAR,
    FLIPS,
    HostileModels,
    X,
    Y,
    assert_spoiled_or_probabilities,
    flip,
    flip_settings,
)


def sklearn_blob(estimator):
    with threadpool_limits(1):
        return SklearnModel(estimator.fit(X, Y), CLASSES).dump()


GOOD = {
    "tree": sklearn_blob(DecisionTreeClassifier(max_depth=4, random_state=0)),
    "forest": sklearn_blob(RandomForestClassifier(3, max_depth=4, random_state=0)),
    "boosting": sklearn_blob(GradientBoostingClassifier(n_estimators=2, random_state=0)),
    "histogram": sklearn_blob(HistGradientBoostingClassifier(max_iter=2)),
    "neighbours": sklearn_blob(KNeighborsClassifier(algorithm="brute")),
    "support": sklearn_blob(SVC()),
}


def rezip(data, edit):
    """Return the skops file after `edit` has changed its entries."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        entries = {name: file.read(name) for name in file.namelist()}
    edit(entries)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return Blob("skops", out.getvalue())


def with_nodes(name, field, value, row=0):
    """Change one field of one node in the first tree."""

    def edit(entries):
        for entry, content in entries.items():
            if entry.endswith(".npy") and field in (np.load(io.BytesIO(content)).dtype.names or ()):
                nodes = np.load(io.BytesIO(content)).copy()
                nodes[field][row] = value
                buffer = io.BytesIO()
                np.save(buffer, nodes)
                entries[entry] = buffer.getvalue()
                return
        raise AssertionError(f"no {field} in {name}")

    return rezip(GOOD[name].data, edit)


def with_schema(name, old, new, count=1):
    def edit(entries):
        text = entries["schema.json"].decode()
        assert re.search(old, text)
        entries["schema.json"] = re.sub(old, new, text, count=count).encode()

    return rezip(GOOD[name].data, edit)


def with_attribute(name, attribute, change):
    """Replace one of the model's arrays."""

    def edit(entries):
        file = json.loads(entries["schema.json"])["content"]["content"][attribute]["file"]
        buffer = io.BytesIO()
        np.save(buffer, change(np.load(io.BytesIO(entries[file]))))
        entries[file] = buffer.getvalue()

    return rezip(GOOD[name].data, edit)


def node(loader, cls, number, **more):
    module, _, name = cls.rpartition(".")
    return {"__class__": name, "__module__": module, "__loader__": loader, "__id__": number, **more}


def plant(thing, name, *path):
    """Put something else under this name in the tree."""

    def edit(entries):
        schema = json.loads(entries["schema.json"])
        place = schema["content"]["content"]
        for step in path:
            place = place[step]["content"]["content"]
        place[name] = thing
        entries["schema.json"] = json.dumps(schema).encode()

    return rezip(TREE, edit)


def billion_laughs():
    """Each level refers twice to the one below, so a few lines describe millions of objects."""
    first = 10**6  # the model's own objects have small numbers
    thing = node("JsonNode", "builtins.str", first, content="1")
    for level in range(first + 1, first + 25):
        both = [thing, node("JsonNode", "builtins.str", level - 1, content="1")]
        thing = node("ListNode", "builtins.list", level, content=both)
    return thing


def nested(entries):
    entries["schema.json"] = b'{"protocol": 2, "content": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


def with_entry(name):
    return rezip(TREE, lambda entries: entries.update({name: b"x"}))


def with_first_array(write):
    def edit(entries):
        buffer = io.BytesIO()
        write(buffer)
        entries[next(name for name in entries if name.endswith(".npy"))] = buffer.getvalue()

    return rezip(TREE, edit)


HUGE = {"descr": "<f8", "fortran_order": False, "shape": (10**10,)}
TREE = GOOD["tree"].data
INDICES = {
    **{
        f"{name} {field}={value}": with_nodes(name, field, value)
        for name in ("tree", "forest", "boosting")
        for field, value in [
            ("left_child", FAR),
            ("left_child", 0),
            ("right_child", -7),
            ("left_child", 2),
            ("feature", FAR),
            ("feature", -3),
            ("threshold", np.nan),
        ]
    },
    **{
        f"histogram {field}={value}": with_nodes("histogram", field, value)
        for field, value in [("left", FAR), ("left", 0), ("right", 1), ("feature_idx", FAR), ("is_categorical", 1)]
    },
    "tree node_count": plant(node("JsonNode", "builtins.str", 1, content="1"), "node_count", "tree_"),
    "tree without columns": with_schema("tree", r'"n_features_in_"', '"other"'),
    "neighbours labels": with_attribute("neighbours", "_y", lambda y: y + FAR),
    "support counts": with_attribute("support", "_n_support", lambda n: n * 100_000),
    "support coefficients": with_attribute("support", "_dual_coef_", lambda c: c[:, :1]),
}
FILES = {
    "empty": Blob("skops", b""),
    "bomb": rezip(TREE, lambda e: e.update({"1.npy": bytes(100_000_000)})),
    "many entries": rezip(TREE, lambda e: e.update({f"{10**8 + i}.npz": b"" for i in range(10)})),
    "path traversal": with_entry("../../1.npy"),
    "absolute path": with_entry("/etc/1.npy"),
    "backslash": with_entry("..\\1.npy"),
    "untrusted": plant(node("FunctionNode", "os.system", 1), "criterion"),
    "nested": rezip(TREE, nested),
    "billion laughs": plant(billion_laughs(), "laugh"),
    "no schema": rezip(TREE, lambda e: e.pop("schema.json")),
    "missing array": rezip(TREE, lambda e: e.pop(next(n for n in e if n.endswith(".npy")))),
    "huge array": with_first_array(lambda file: np.lib.format.write_array_header_1_0(file, HUGE)),
    "pickled array": with_first_array(lambda file: np.save(file, np.array([{}]), allow_pickle=True)),
    "old protocol": with_schema("tree", '"protocol":2', '"protocol":0'),
    "other loader": with_schema("tree", '"ObjectNode"', '"PartialNode"'),
    "shadowed method": with_schema("tree", '"criterion"', '"predict_proba"'),
    "classes out of range": with_attribute("tree", "classes_", lambda c: c + 5),
    "classes negative": with_attribute("tree", "classes_", lambda c: c - 1),
    "classes not numbers": with_attribute("tree", "classes_", lambda c: c.astype(str)),
}


class TestSkops(HostileModels):
    GOOD, HOSTILE = GOOD, INDICES | FILES

    @pytest.mark.slow
    @flip_settings
    @given(name=st.sampled_from(sorted(GOOD)), entry=st.integers(0, 1000), flips=FLIPS)
    def test_flipped_bytes_inside_the_zip_are_spoiled_or_return_probabilities(self, sandbox, name, entry, flips):
        def edit(entries):
            chosen = sorted(entries)[entry % len(entries)]
            entries[chosen] = flip(entries[chosen], flips)

        assert_spoiled_or_probabilities(sandbox, rezip(GOOD[name].data, edit))


def test_a_model_for_other_columns_or_classes_is_spoiled(sandbox):
    with pytest.raises(Spoiled, match="columns"):
        sandbox.ask(GOOD["tree"], X[:, :2], classes=CLASSES)
    with pytest.raises(Spoiled, match="from 0 to 1"):
        sandbox.ask(GOOD["tree"], X, classes=2)


@pytest.mark.parametrize(("field", "value"), [("left_child", FAR), ("left_child", 0), ("feature", FAR)])
def test_a_child_process_contains_trees_that_were_not_checked(field, value):
    data = with_nodes("tree", field, value).data
    trusted = sorted(frozenset().union(*ALLOWED.values()))

    def ask():
        return skops.io.loads(data, trusted=trusted).predict_proba(X).tobytes()

    good, reason = run_in_child(ask, memory_mb=512, seconds=1, size=X.shape[0] * CLASSES * 8)
    assert not good
    assert b"signal 11" in reason or b"took longer than 1 s" in reason
