"""Raw rows in, class names out: the outcome's model carries the schema of its election."""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import oneballot as ob
from oneballot.election.columns import Category, Number
from oneballot.election.frames import encode_frame
from oneballot.errors import DataError, OneBallotWarning

TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 6})
CLASSES = ("unclear", "ill", "healthy")
WARDS = ("north", "south", "west")
SCHEMA = ob.Schema(
    label="outcome",
    id="visit",
    columns=(
        Number(name="age", range=(20, 90)),
        Number(name="dose", range=(0, 5)),
        Category(name="ward", categories=WARDS),
        Category(name="smoker", categories=("false", "true")),
    ),
)


def columns(rows, seed):
    """Ages, doses, wards and smokers, which decide the outcome together."""
    rng = np.random.default_rng(seed)
    age, dose = rng.integers(20, 91, rows), rng.uniform(0, 5, rows)
    ward, smoker = rng.choice(WARDS, rows), rng.random(rows) < 0.4
    ill = age / 90 + dose / 5 + 0.3 * (ward == "north") - 0.2 * smoker > 1.1
    outcome = np.where(ward == "west", "unclear", np.where(ill, "ill", "healthy"))
    found = {"age": age, "dose": dose, "ward": ward, "smoker": smoker, "outcome": outcome}
    return {name: values.tolist() for name, values in found.items()} | {"visit": list(range(rows))}


TEST = columns(400, seed=9)


def right(names):
    return float((np.asarray(names) == TEST["outcome"]).mean())


def agree(public, learner, schema=SCHEMA):
    return ob.Election(CLASSES, public, method=ob.FedKT(), learner=learner, schema=schema)


@pytest.fixture(scope="module")
def election():
    return agree(columns(300, seed=0), LogisticRegression(C=10))


@pytest.fixture(scope="module")
def outcome(election):
    return ob.tally(election, [ob.cast(election, columns(200, i), party=f"clinic-{i}") for i in (1, 2, 3)])


def test_raw_rows_of_every_library_are_encoded_by_the_schema(outcome, make_frame):
    assert right(outcome.model.predict(make_frame(TEST))) > 0.9


def test_columns_may_be_in_another_order_and_others_are_ignored(outcome, make_frame):
    expected = outcome.model.predict_proba(make_frame(TEST))
    backwards = make_frame({"remark": [None] * 400, **dict(reversed(TEST.items()))})
    np.testing.assert_array_equal(outcome.model.predict_proba(backwards), expected)
    without = make_frame({name: values for name, values in TEST.items() if name not in ("outcome", "visit")})
    np.testing.assert_array_equal(outcome.model.predict_proba(without), expected)


def test_the_model_is_as_accurate_after_saving_and_loading(outcome, tmp_path, make_frame):
    outcome.save(tmp_path)
    loaded = ob.Outcome.load(tmp_path).model
    np.testing.assert_array_equal(loaded.predict_proba(make_frame(TEST)), outcome.model.predict_proba(make_frame(TEST)))
    assert loaded.feature_names_in_.tolist() == ["age", "dose", "ward", "smoker"]


def test_a_file_may_be_named_instead(outcome, clinic: Path):
    (clinic / "new.csv").write_text("ward,age,smoker,dose\nwest,50,true,1\n")
    for name in (clinic / "new.csv", str(clinic / "new.csv")):
        assert outcome.model.predict(name).tolist() == ["unclear"]
    with pytest.raises(DataError, match=r"test\.csv: missing column 'smoker'"):
        outcome.model.predict(clinic / "test.csv")
    with pytest.raises(DataError, match="there is no file nowhere"):
        outcome.model.predict("nowhere.csv")


def test_all_missing_columns_are_named(outcome, make_frame):
    few = make_frame({"dose": TEST["dose"], "smoker": TEST["smoker"]})
    with pytest.raises(DataError, match=r"missing columns 'age', 'ward'; .* dose, smoker"):
        outcome.model.predict(few)


def test_an_array_is_refused_where_the_election_has_a_schema(outcome, election):
    raw = np.column_stack([TEST["age"], TEST["dose"]])
    for predict in (outcome.model.predict, outcome.model.predict_proba, outcome.model.fit):
        with pytest.raises(
            DataError, match=r"an array has no column names.*DataFrame or a file with the columns age, dose, ward"
        ):
            predict(raw, *([TEST["outcome"]] if predict == outcome.model.fit else []))
    encoded = election.data(TEST).X
    with pytest.raises(DataError, match="an array has no column names"):
        outcome.model.predict(encoded)
    assert right(outcome.model.predict_encoded(encoded)) > 0.9


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_single_row_is_a_frame_and_not_a_series(outcome, library):
    frames = pytest.importorskip(library)
    rows = frames.DataFrame(TEST)
    series = rows.iloc[0] if library == "pandas" else rows["age"]
    with pytest.raises(DataError, match="X is a Series; expected a DataFrame, also of a single row"):
        outcome.model.predict(series)
    assert len(outcome.model.predict(rows[:1])) == 1


def test_unencoded_arrays_were_wrong_silently_and_are_refused_now(outcome, election):
    """Raw values in the place of encoded ones, or encoded columns in another order, are often misclassified."""
    encoded = election.data(TEST).X
    assert right(outcome.model.predict_encoded(encoded[:, ::-1])) < 0.6
    raw = np.column_stack([TEST["age"], TEST["dose"], encoded[:, 2:]])
    assert right(outcome.model.predict_encoded(raw)) < 0.6
    with pytest.raises(DataError, match="'age' are not encoded"):
        election.encoded(raw, TEST["outcome"])
    with pytest.raises(DataError, match="the election has a schema"):
        ob.cast(election, raw, TEST["outcome"], party="clinic-x")
    with pytest.raises(DataError, match="the election has a schema"):
        ob.simulate(election, raw, TEST["outcome"])
    with pytest.raises(DataError, match=r"the public set: the election has a schema.*'age' are not encoded"):
        ob.Election(CLASSES, raw, schema=SCHEMA)


def test_classes_are_sorted_and_probabilities_follow_them(outcome, make_frame):
    model, frame = outcome.model, make_frame(TEST)
    assert model.classes_.tolist() == sorted(CLASSES)
    assert outcome.classes == CLASSES
    probabilities = model.predict_proba(frame)
    np.testing.assert_array_equal(model.predict(frame), model.classes_[probabilities.argmax(axis=1)])
    unsorted = outcome.probabilities(SCHEMA.encode({k: np.array(v, object) for k, v in text(TEST).items()}, "x"))
    np.testing.assert_array_equal(unsorted, probabilities[:, [2, 1, 0]])
    assert outcome.class_names(unsorted) == model.predict(frame).tolist()


def text(found):
    return {name: [str(v).lower() if v in (True, False) else v for v in values] for name, values in found.items()}


def test_a_schemaless_election_with_unsorted_classes_predicts_the_right_names():
    rng = np.random.default_rng(0)
    X, names = rng.uniform(size=(300, 2)), np.array(["b", "a"])
    y = names[(X[:, 0] > 0.5).astype(int)]
    election = ob.Election(names, X[:100], method=ob.FedKT(), learner=LogisticRegression())
    outcome = ob.tally(election, [ob.cast(election, X[100:], y[100:], party="a")])
    assert outcome.model.classes_.tolist() == ["a", "b"]
    assert outcome.model.score(X, y) > 0.9
    assert outcome.model.n_features_in_ == 2
    assert not hasattr(outcome.model, "feature_names_in_")


def test_scikit_learn_calibrates_and_cross_validates_the_model_on_raw_rows(outcome, make_frame):
    frame, y = make_frame(TEST), np.array(TEST["outcome"])
    model = FrozenEstimator(outcome.model)
    assert cross_val_score(model, frame, y, cv=3).min() > 0.85
    calibrated = CalibratedClassifierCV(model).fit(frame, y)
    assert calibrated.classes_.tolist() == sorted(CLASSES)
    assert calibrated.score(frame, y) > 0.9
    assert (calibrated.n_features_in_, list(calibrated.feature_names_in_)) == (4, ["age", "dose", "ward", "smoker"])


def test_a_clone_encodes_raw_rows_with_the_same_schema(outcome, make_frame):
    frame = make_frame(TEST)
    copy = clone(outcome.model).fit(frame, TEST["outcome"])
    assert copy.schema == SCHEMA
    assert copy.score(frame, TEST["outcome"]) > 0.95
    assert copy.n_features_in_ == 4
    assert cross_val_score(clone(outcome.model), frame, TEST["outcome"], cv=3).min() > 0.85


class TestCast:
    def digest(self, election, *given, **named):
        return ob.cast(election, *given, party="clinic-a", **named).digest

    def test_a_frame_is_cast_like_the_same_file(self, election, make_frame, tmp_path: Path):
        file = tmp_path / "mine.csv"
        lines = zip(*text(TEST).values(), strict=True)
        file.write_text("\n".join([",".join(TEST), *(",".join(map(str, line)) for line in lines)]) + "\n")
        from_file = self.digest(election, election.read_data(file))
        assert self.digest(election, file) == self.digest(election, str(file), "outcome") == from_file
        assert self.digest(election, make_frame(TEST)) == from_file
        assert self.digest(election, make_frame(dict(reversed(TEST.items()))), "outcome") == from_file

    def test_labels_and_ids_may_come_from_elsewhere(self, election, make_frame):
        expected = self.digest(election, make_frame(TEST))
        renamed = {("diagnosis" if name == "outcome" else name): values for name, values in TEST.items()}
        assert self.digest(election, make_frame(renamed), "diagnosis") == expected
        rest = {name: values for name, values in TEST.items() if name not in ("outcome", "visit")}
        frame = make_frame(TEST)
        for y in (TEST["outcome"], np.array(TEST["outcome"]), frame["outcome"]):
            assert self.digest(election, make_frame(rest), y, ids=TEST["visit"]) == expected
        data = election.data(make_frame(rest), TEST["outcome"], ids=frame["visit"])
        assert data.ids.tolist() == [str(i) for i in range(400)]

    def test_what_is_missing_or_too_much_is_named(self, election, make_frame):
        rest = make_frame({name: values for name, values in TEST.items() if name not in ("outcome", "visit")})
        with pytest.raises(DataError, match=r"clinic-a: missing column 'visit'.* for the row ID"):
            self.digest(election, rest, TEST["outcome"])
        with pytest.raises(DataError, match=r"clinic-a: missing column 'outcome'.* for the label"):
            self.digest(election, rest, ids=TEST["visit"])
        with pytest.raises(DataError, match="clinic-a has no column 'diagnosis'"):
            self.digest(election, make_frame(TEST), "diagnosis")
        with pytest.raises(DataError, match="clinic-a: there are 400 rows, but 3 values of 'outcome'"):
            self.digest(election, make_frame(TEST), ["ill"] * 3)
        with pytest.raises(DataError, match="at least one row"):
            self.digest(election, make_frame({name: values[:0] for name, values in TEST.items()}))

    def test_rows_without_a_label_or_an_id_are_left_out_with_a_warning(self, election, make_frame):
        holes = TEST | {"outcome": [None, *TEST["outcome"][1:]], "visit": [*TEST["visit"][:-1], None]}
        with pytest.warns(OneBallotWarning, match="clinic-a: 2 of 400 rows have no label or ID and are left out"):
            data = election.data(make_frame(holes), source="clinic-a")
        assert (len(data), data.ids[0], data.ids[-1]) == (398, "1", "398")
        with pytest.warns(OneBallotWarning, match="1 of 400 rows has no label"):
            again = election.data(make_frame(TEST), make_frame(holes)["outcome"])
        np.testing.assert_array_equal(again.X[:-1], data.X)

    def test_the_public_set_may_be_a_frame(self, election, make_frame):
        again = agree(make_frame(columns(300, seed=0)), LogisticRegression(C=10))
        assert again.digest == election.digest

    def test_a_frame_without_a_schema_is_used_by_position_with_a_warning(self, make_frame):
        X = {"a": [0.1, 0.9, 0.2, 0.8], "b": [0.0, 1.0, 0.1, 0.7]}
        election = ob.Election([0, 1], np.array(list(X.values())).T, method=ob.FedKT(), learner=LogisticRegression())
        with pytest.warns(OneBallotWarning, match="columns are used in their order, whatever their names"):
            ob.cast(election, make_frame(X), [0, 1, 0, 1], party="a")
        with pytest.raises(DataError, match="the labels are missing"):
            ob.cast(election, np.eye(2), party="a")


def test_a_simulation_takes_frames(election, make_frame):
    run = ob.simulate(election, make_frame(columns(600, 4)), parties=3, split="homogeneous")
    assert right(run.outcome.model.predict(make_frame(TEST))) > 0.9
    by_ward = ob.simulate(election, make_frame(columns(600, 4)), "outcome", parties=None, split="column:ward")
    assert len(by_ward.parties) == 3


def test_the_open_ensemble_needs_a_schema_but_no_public_rows(make_frame):
    election = ob.Election(CLASSES, method=ob.Ensemble(weights="open"), schema=SCHEMA, learner=TREE)
    outcome = ob.tally(election, [ob.cast(election, make_frame(columns(200, i)), party=f"clinic-{i}") for i in (1, 2)])
    assert right(outcome.model.predict(make_frame(dict(reversed(TEST.items()))))) > 0.8


def test_an_image_is_a_column_too():
    images, y = np.random.default_rng(0).integers(100, 255, (60, 1, 4, 4)).astype(np.uint8), np.arange(60) % 2
    images[y == 1, :, :2] = 0
    schema = ob.Schema.from_frame({"image": images, "label": y})
    election = ob.Election([1, 0], {"image": images}, method=ob.FedKT(), learner=TREE, schema=schema)
    outcome = ob.tally(election, [ob.cast(election, {"image": images, "label": y}, party="a")])
    assert outcome.model.score({"image": images}, y) == 1
    with pytest.raises(DataError, match="DataFrame or a file with the columns image"):
        outcome.model.predict(images)


def test_lenient_schemas_accept_missing_cells_odd_values_and_dates(make_frame, tmp_path: Path):
    """As `oneballot new` writes them: nothing in a cell stops a cast or a prediction."""
    first = date(2024, 1, 1)
    found = columns(300, 5) | {"seen": [first + timedelta(days=i) for i in range(300)]}
    schema = ob.Schema.from_frame(make_frame(found), label="outcome", id="visit")
    assert [c.kind for c in schema.columns] == ["number", "number", "category", "category", "date"]
    election = agree(make_frame(found), LogisticRegression(C=10), schema)
    outcome = ob.tally(election, [ob.cast(election, make_frame(found), party="a")])
    odd = {
        "age": [50, None, 999],
        "dose": [1.0, 2.0, None],
        "ward": ["west", "attic", None],
        "smoker": [True, None, False],
        "seen": [first, None, date(1990, 1, 1)],
    }
    with pytest.warns(OneBallotWarning, match="clipped"):
        names = outcome.model.predict(make_frame(odd))
    assert names[0] == "unclear"
    (tmp_path / "odd.csv").write_text(
        "age,dose,ward,smoker,seen\n50,1,west,true,2024-01-01\n,2,attic,,\n999,,,false,1990-01-01\n"
    )
    table = outcome.read_table(tmp_path / "odd.csv")
    encoded = schema.encode(table.columns, table.source)
    np.testing.assert_array_equal(encode_frame(schema, make_frame(odd), "here"), encoded)


def test_a_multi_label_election_takes_frames(make_frame):
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=300), rng.uniform(size=300)
    found = {"x": x, "y": y, "right": (x > 0.5).astype(int), "high": (y > 0.5).astype(int)}
    schema = ob.Schema.from_frame(make_frame(found), label=["right", "high"])
    election = ob.Election(
        ["right", "high"], make_frame(found), method=ob.FedKD(), schema=schema, multilabel=True, learner=ob.Torch("mlp")
    )
    data = election.data(make_frame(found))
    np.testing.assert_array_equal(data.y, np.stack([found["right"], found["high"]], axis=1) * 2 - 1)
    labels = make_frame({"high": found["high"], "right": found["right"]})
    np.testing.assert_array_equal(election.data(make_frame({"x": x, "y": y}), labels).y, data.y)
    array = np.stack([found["right"], found["high"]], axis=1)
    np.testing.assert_array_equal(election.data(make_frame({"x": x, "y": y}), array).y, data.y)
    with pytest.raises(DataError, match=r"expected labels of shape \(rows, 2\), not \(300,\)"):
        election.data(make_frame({"x": x, "y": y}), found["right"])


class TestFromFrame:
    def test_a_schema_is_inferred_as_by_the_command_new(self, make_frame, clinic: Path):
        from oneballot.data.read import read
        from oneballot.election.infer import infer

        table = read(clinic / "public.csv")
        expected = infer(table.columns, "ill")
        numbers = {name: list(map(float, table[name])) for name in ("age", "dose")}
        frame = make_frame({**numbers, "ward": table["ward"].tolist(), "ill": table["ill"].tolist()})
        assert ob.Schema.from_frame(frame, label="ill") == expected

    def test_the_label_may_be_absent_and_the_id_is_no_feature(self, make_frame):
        schema = ob.Schema.from_frame(make_frame(TEST), label="outcome", id="visit")
        assert [c.name for c in schema.columns] == ["age", "dose", "ward", "smoker"]
        assert (schema.label, schema.id) == ("outcome", "visit")
        features = make_frame({"age": TEST["age"], "ward": TEST["ward"]})
        assert ob.Schema.from_frame(features).label == "label"
        with pytest.raises(DataError, match=r"id='patient': the DataFrame has no such column; it has age, ward"):
            ob.Schema.from_frame(features, id="patient")


class TestEstimatorsAsLearners:
    """An unfitted scikit-learn estimator is a learner: in Election(learner=…), in learners by role, and in a cast."""

    def test_an_estimator_runs_an_election_from_raw_rows_to_a_saved_model(self, tmp_path: Path):
        election = agree(columns(300, 0), LogisticRegression(C=0.1))
        assert election.learner == ob.Sklearn("LogisticRegression", {"C": 0.1})
        outcome = ob.tally(election, [ob.cast(election, columns(300, i), party=f"clinic-{i}") for i in (1, 2)])
        outcome.save(tmp_path)
        model = ob.Outcome.load(tmp_path).model
        assert right(model.predict(TEST)) > 0.8
        assert model.learner.params == {"C": 0.1}
        assert clone(model).learner == election.learner

    def test_it_is_the_same_election_as_with_names(self):
        as_object = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
        steps = [
            {"estimator": "StandardScaler", "params": {}},
            {"estimator": "LogisticRegression", "params": {"C": 0.1}},
        ]
        digests = {
            ob.Election(CLASSES, columns(50, 0), schema=SCHEMA, **named).digest
            for named in (
                {"learner": as_object},
                {"learner": ob.Sklearn("Pipeline", {"steps": steps})},
                {"learner": ob.Sklearn(as_object)},
            )
        }
        assert len(digests) == 1

    def test_a_party_may_choose_an_estimator(self, election):
        by_object, by_name, usual = (
            ob.cast(election, columns(200, 1), party="a", learners=chosen).digest
            for chosen in ({"all": GaussianNB()}, {"all": ob.Sklearn("GaussianNB")}, None)
        )
        assert by_object == by_name != usual
