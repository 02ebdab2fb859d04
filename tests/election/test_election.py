"""An election is checked completely before any training, and its digest identifies what the parties agreed on."""

import base64
import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oneballot as ob
from oneballot.election.cells import as_label
from oneballot.election.checks import check_quorum
from oneballot.election.columns import Category, Number, Tensor
from oneballot.election.election import Election
from oneballot.election.file import digest_of
from oneballot.election.infer import Choices
from oneballot.election.schema import Schema
from oneballot.election.template import draft, section
from oneballot.errors import DataError, ElectionError, WillNotWork
from oneballot.formats.safetensors import ConstantModel
from oneballot.server.context import TallyContext

PUBLIC = np.arange(12.0).reshape(6, 2)
TREE = ob.Sklearn("DecisionTreeClassifier")


def election(**settings):
    return Election(**{"classes": ["no", "yes"], "public": PUBLIC, "method": ob.FedKT(), "learner": TREE, **settings})


STRICT = Choices(strict=True)


@pytest.fixture
def drafted(tmp_path):
    """An election.toml with its public file, as `oneballot new` writes them."""
    (tmp_path / "public.csv").write_text("age,ward,ill\n1,north,no\n2,south,yes\n3,north,no\n")
    path = tmp_path / "election.toml"
    path.write_text(draft(tmp_path / "public.csv", "ill", beside=path, choices=STRICT).text, "utf-8")
    return path


def altered(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    return path


def test_a_drafted_election_is_read_with_its_public_set(drafted):
    read = Election.read(drafted)
    assert read.classes == ("no", "yes")
    np.testing.assert_allclose(read.public, [[0, 1, 0], [0.5, 0, 1], [1, 1, 0]])
    assert read.learner == ob.Sklearn("RandomForestClassifier", {"n_estimators": 100})
    assert read.learner_of("final") == ob.Sklearn("ExtraTreesClassifier", {"n_estimators": 100})
    chosen = ob.FedKT(open_vote="weighted", subsets=1, students=False, influence="bounded", final_weights="rare")
    chosen = replace(chosen, second_choice=True)
    assert read.method == ob.FedKT().for_level("L0") == chosen


def test_classes_given_as_text_are_not_its_letters() -> None:
    with pytest.raises(ElectionError, match=r"must be a list of names, such as .*, not the text 'noyes'"):
        ob.Election(classes="noyes")


KEYS = ["ed25519:" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2)]
"""Valid public keys without secret keys."""

MISTAKES = [
    ("format = 1", "format = 2", r"election.toml: format: Input should be 1 \(got 2\)"),
    ("format = 1", "", "election.toml: format: Field required"),
    ("seed = 0", "sed = 0", "election.toml: sed: there is no such setting; did you mean seed"),
    ("seed = 0", 'seed = "one"', r"election.toml: seed: .*valid integer.*\(got 'one'\)"),
    ("seed = 0", "seed = -1", r"election.toml: seed: .*\(got -1\)"),
    ("seed = 0", "seed = ", r"election.toml is not TOML: Invalid value \(at line 5"),
    ('classes = ["no", "yes"]', 'classes = "no"', r"election.toml: classes: .*\(got 'no'\)"),
    ('classes = ["no", "yes"]', "classes = [true, false]", r"election.toml: classes.0.str: .*\(got True\)"),
    ('classes = ["no", "yes"]', 'classes = ["no"]', r"election.toml: classes must be two or more different names"),
    ('classes = ["no", "yes"]', 'classes = ["no", " no"]', r"election.toml: classes must be two or more different"),
    ("quorum = 1 ", "quorum = 0 ", r"election.toml: quorum: .*greater than 0 \(got 0\)"),
    ('name = "fedkt"', 'name = "fedk"', r"election.toml, \[method\]: unknown method 'fedk'.*Did you mean 'fedkt'"),
    ('name = "fedkt"', "", r'election.toml, \[method\]: name = "…" is missing; available: .*fedkt'),
    ('name = "fedkt"', "name = 5", r'election.toml, \[method\]: name = "…" is missing'),
    ("partitions = 1 ", "partition = 2 ", r"fedkt: unknown setting partition; available: partitions, subsets"),
    ("partitions = 1 ", "partitions = 0 ", r"election.toml, \[method\]: FedKT: partitions: .*greater than 0 \(got 0\)"),
    ("# students = false", 'voting = "soft"\nopen_vote = "weighted" #', r"\[method\]: open_vote = .weighted. needs"),
    ('"sklearn" ', '"sklern" ', r"election.toml, \[learners.all\]: unknown learner 'sklern'.*mean 'sklearn'"),
    ('name = "sklearn"', 'name = "xgboost"', r"election.toml, \[learners.all\]: xgboost: unknown setting estimator"),
    ("RandomForestClassifier", "RandomForest", r"election.toml, \[learners.all\]: .*'RandomForest' is not supported"),
    ("n_estimators", "trees", r"election.toml, \[learners.all\]: .* has no parameter trees; it has n_estimators"),
    ("n_estimators = 100", "n_estimators = 0", r"election.toml, \[learners.all\]: .*'n_estimators' .* Got 0 instead"),
    ("[learners.all]", "[learners.techer]", "election.toml: method fedkt has no learner techer; it has final, teacher"),
    ("[learners.all]", "[learners.student]", "election.toml: method fedkt has no learner student; it has final"),
    ('level = "L0"', 'level = "L1"', r"election.toml, \[privacy\]: level L1 needs a privacy budget .*or a noise scale"),
    ('level = "L0"', 'level = "L2"\nepsilon = 0', r"election.toml: privacy.epsilon: .*greater than 0"),
    ('level = "L0"', 'level = "L2"\nepsilon = 1.0\ndelta = 1.0', r"\[privacy\]: delta must lie between 0 and 1"),
    ('level = "L0"', 'level = "L2"\nepsilom = 1', r"election.toml: privacy.epsilom: there is no such setting"),
    ('level = "L0"', 'level = "L0"\nepsilon = 1.0', r"\[privacy\]: level = \"L0\" adds no noise, so epsilon cannot"),
    ('level = "L0"', 'level = "L2"\nsigma = 4.0\nmechanism = "gumbel"', r"sigma is gaussian noise, but mechanism ="),
    ('level = "L0"', 'level = "L2"\nsigma = 4.0\nscale = 4.0', "give one noise scale, not sigma and scale"),
    ('level = "L0"', 'level = "L2"\nepsilon = 1.0\nnoise_seed = 3', "rehearsal = true and noise_seed go together"),
    ('level = "L0"', 'level = "L1"\nepsilon = 1.0\nstable_ids = true', r"stable_ids cannot be given at level L1"),
    ('level = "L0"', 'level = "L2"\nepsilon = 1.0\nmechanism = "confident"', r"needs threshold .votes. and answers"),
    ('level = "L0"', 'level = "L9"', r"election.toml: privacy.level: .*'L0', 'L1' or 'L2' \(got 'L9'\)"),
    ("# clinic-a", '"clinic a "', "election.toml: party name 'clinic a ': it begins or ends with a space"),
    ('# clinic-a = "ed25519:…"', "clinic-a = 5", r"election.toml: roster.clinic-a: expected a public key .*, not 5"),
    ('path = "public.csv"', 'path = "pub.csv"', r"election.toml: public.path: .*pub.csv does not exist; put"),
    ('digest = "sha256:', 'digest = "sha256:0', r"public.csv is not the public set of this election: .*"),
    ('digest = "', 'diggest = "', "election.toml: public.digest: Field required"),
    ("range = [1.0, 3.0]", "range = [3.0, 1.0]", r"election.toml: schema.columns.0.number: range must be \[low"),
    ("range = [1.0, 3.0]", "range = [nan, 3.0]", r"election.toml: schema.columns.0.number.range.0: .*finite"),
    ('kind = "number"', 'kind = "numbers"', r"election.toml: schema.columns.0: .*'numbers'.*'number', 'date'"),
    ('label = "ill"', 'label = "age"', "schema: a column may be used once, as label, id or feature: 'age'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "error"), MISTAKES, ids=[f"{old} -> {new}" for old, new, _ in MISTAKES])
def test_an_error_in_the_file_names_the_file_and_the_key(drafted, old, new, error):
    with pytest.raises(ElectionError, match=error) as raised:
        Election.read(altered(drafted, old, new))
    assert str(raised.value).count("election.toml") == str(raised.value).count("\n") + 1


def test_a_quorum_that_the_roster_cannot_meet_is_rejected_when_someone_votes(drafted):
    altered(drafted, "quorum = 1 ", "quorum = 2 ")
    election = Election.read(altered(drafted, '# clinic-a = "ed25519:…"', f'clinic-a = "{KEYS[0]}"'))
    for vote in (lambda: ob.cast(election, drafted.parent / "a.csv", party="clinic-a"), lambda: ob.tally(election, [])):
        with pytest.raises(ElectionError, match=r"a quorum of 2 cannot be met: the roster lists 1 party\. Add more"):
            vote()
    check_quorum(replace(election, roster={}))
    check_quorum(replace(election, roster={"a": KEYS[0], "b": KEYS[1]}))


def test_a_changed_public_set_is_rejected(drafted):
    (drafted.parent / "public.csv").write_text("age,ward,ill\n1,north,no\n2,south,yes\n2.5,north,no\n")
    with pytest.raises(ElectionError, match="Get the file that the election was made with"):
        Election.read(drafted)


def test_labels_of_the_public_set_are_not_used(drafted):
    before = Election.read(drafted).digest
    (drafted.parent / "public.csv").write_text("age,ward\n1,north\n2,south\n3,north\n")
    assert Election.read(drafted).digest == before


def test_a_public_value_that_does_not_fit_the_schema_is_reported(drafted):
    with pytest.raises(DataError, match=r"public.csv, column 'age': row 1 \('1'\) is outside the range 2 to 3"):
        Election.read(altered(drafted, "range = [1.0, 3.0]", "range = [2.0, 3.0]"))


def test_a_public_file_needs_a_schema(drafted):
    text = drafted.read_text("utf-8")
    drafted.write_text(text[: text.index("[schema]")], "utf-8")
    with pytest.raises(ElectionError, match=r"election.toml: a \[public\] file needs a \[schema\]"):
        Election.read(drafted)


def test_a_missing_or_unreadable_file_is_reported(tmp_path):
    with pytest.raises(ElectionError, match=r"there is no election .*none.toml; write one: `oneballot new"):
        Election.read(tmp_path / "none.toml")
    with pytest.raises(ElectionError, match="is a folder; expected the file of an election"):
        Election.read(tmp_path)
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ElectionError, match=r"bad.toml is not TOML: .*codec"):
        Election.read(tmp_path / "bad.toml")


def test_all_errors_of_a_file_are_reported_at_once(drafted):
    altered(drafted, "seed = 0", "seed = -1")
    with pytest.raises(ElectionError, match=r"(?s)election.toml: seed: .*\n.*election.toml: privacy.level"):
        Election.read(altered(drafted, 'level = "L0"', 'level = "L9"'))


def test_the_digest_is_the_same_for_csv_parquet_npz_and_python(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    ages, wards = [40.25, 20, 62.125], ["north", "south", "north"]
    (tmp_path / "p.csv").write_text("age,ward\n40.25,north\n20,south\n62.125,north\n")
    pq.write_table(pa.table({"age": ages, "ward": wards}), tmp_path / "p.parquet")
    np.savez(tmp_path / "p.npz", age=np.array(ages), ward=np.array(wards))
    digests = {}
    for suffix in ("csv", "parquet", "npz"):
        path = tmp_path / "election.toml"
        drafted = draft(tmp_path / f"p.{suffix}", "ill", beside=path, classes=["no", "yes"], choices=STRICT)
        path.write_text(drafted.text, "utf-8")
        digests[suffix] = Election.read(path).digest
    read = Election.read(path)
    rows = [[(age - 20) / 42.125, ward == "north", ward == "south"] for age, ward in zip(ages, wards, strict=True)]
    digests["python"] = Election(
        classes=["no", "yes"],
        public=np.array(rows),
        method=ob.FedKT(),
        learner=ob.Sklearn("RandomForestClassifier", {"n_estimators": np.int64(100)}),
        learners={"final": ob.Sklearn("ExtraTreesClassifier", {"n_estimators": 100})},
        schema=Schema(
            label="ill",
            columns=(Number(name="age", range=(20, 62.125)), Category(name="ward", categories=("north", "south"))),
        ),
        name="election",
        seed=np.int64(0),
    ).digest
    assert len(set(digests.values())) == 1, digests
    assert read.digest == digests["python"]


def test_numpy_classes_have_the_digest_of_python_classes():
    assert (
        election(classes=np.array([0, 1])).digest
        == election(classes=[0, 1]).digest
        == election(classes=range(2)).digest
    )


def test_the_digest_of_an_array_depends_on_its_values_dtype_and_shape():
    X = np.array([[1.0, -0.0], [2.0, 3.0]], dtype=np.float32)
    assert digest_of(X) == digest_of(np.abs(X)) == digest_of(np.asfortranarray(X)) == digest_of(X.astype(">f4"))
    assert digest_of(X) != digest_of(X.astype(np.float64))
    assert digest_of(X) != digest_of(X.reshape(4, 1))
    assert digest_of(X) != digest_of(X + 1)


def test_roster_quorum_and_size_limit_do_not_change_the_digest():
    default = election().digest
    assert election(roster=dict(zip("ab", KEYS, strict=True)), quorum=2, max_ballot_mb=5).digest == default


@pytest.mark.parametrize(
    "change",
    [
        {"classes": ["no", "perhaps"]},
        {"classes": ["yes", "no"]},
        {"public": PUBLIC + 1},
        {"public": PUBLIC[::-1]},
        {"method": ob.FedKT(queries=0.5)},
        {"learner": ob.Sklearn("DecisionTreeClassifier", {"max_depth": 3})},
        {"learner": ob.Sklearn("GaussianNB")},
        {"learners": {"final": ob.Sklearn("GaussianNB")}},
        {"schema": Schema(label="y", columns=(Tensor(name="x", kind="features", shape=PUBLIC.shape[1:]),))},
        {"name": "another"},
        {"seed": 1},
    ],
    ids=lambda change: ",".join(change),
)
def test_every_other_setting_changes_the_digest(change):
    assert election(**change).digest != election().digest


def test_the_description_of_an_election_is_json():
    assert json.loads(json.dumps(election().describe()))["learners"] == {
        "all": {"name": "sklearn", "estimator": "DecisionTreeClassifier", "params": {}}
    }


def test_a_setting_that_cannot_be_serialised_is_rejected():
    with pytest.raises(ElectionError, match="cannot be written to an election"):
        _ = election(learner=ob.Sklearn("GaussianNB", {"var_smoothing": 1e-9, "priors": {1, 2}})).digest


@pytest.mark.parametrize(
    ("public", "error"),
    [
        ([[1.0, np.nan], [2, 3]], r"the public set: 1 value is NaN or infinite, the first at \(0, 1\). Fill"),
        ([[1.0, np.inf]], "NaN or infinite"),
        (np.array([[1e300]]), "NaN or infinite"),
        ([["a", "b"]], "expected numbers, not <U1; describe the columns in a schema"),
        ([[1, "b"]], "expected numbers"),
        ([[None, 1]], "expected numbers, not object"),
        ([[1j]], "expected numbers, not complex"),
        ([1.0, 2.0], r"expected at least one row of features, but the shape is \(2,\)"),
        (np.zeros((0, 3)), r"at least one row of features, but the shape is \(0, 3\)"),
        ([[1], [1, 2]], "expected rows of the same shape"),
    ],
)
def test_a_public_set_that_is_not_rows_of_finite_numbers_is_rejected(public, error):
    with pytest.raises(DataError, match=error):
        election(public=public)


@pytest.mark.parametrize(
    ("X", "y", "error"),
    [
        ([[1, 2, 3]], ["no"], r"clinic-a: rows have shape \(3,\), but the election's have \(2,\)"),
        ([[1, 2], [3, 4]], ["no"], "clinic-a: X has 2 rows, but y has 1"),
        ([[1, 2]], ["perhaps"], r"clinic-a, column 'label': row 1 \('perhaps'\) is not a class.*use one of no, yes"),
        ([[1, 2]], [np.nan], r"row 1 \(''\) has no label"),
        ([[1, np.nan]], ["no"], "clinic-a: 1 value is NaN"),
        ([["x", "y"]], ["no"], "clinic-a: expected numbers"),
        ([[1, 2]], "no", "expected one label per row"),
        ([[1, 2]], [["no"]], "expected one label per row"),
    ],
)
def test_invalid_arrays_of_a_party_are_reported(X, y, error):
    with pytest.raises(DataError, match=error):
        election().data(X, y, "clinic-a")


def test_a_partys_arrays_become_float32_and_class_indices():
    data = election(classes=[3, 7]).data([[1, 2], [3, 4]], ["7", 3.0], "a")
    assert data.X.dtype == np.float32
    assert data.y.tolist() == [1, 0]


def test_bytes_stay_bytes():
    images = np.zeros((4, 1, 2, 2), dtype=np.uint8)
    assert election(public=images).public.dtype == np.uint8
    assert election(public=images).data(images, ["no"] * 4).X.dtype == np.uint8
    assert election(public=np.array([[True], [False]])).public.dtype == np.float32


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"classes": ["a"]}, "two or more different names"),
        ({"classes": ["a", "a"]}, "two or more different names"),
        ({"classes": [1, "1"]}, "two or more different names"),
        ({"classes": [1, "1.0"]}, "two or more different names"),
        ({"quorum": 0}, "quorum must be at least 1, not 0"),
        ({"roster": {"a\u202eb": KEYS[0]}}, "U\\+202E, which cannot be seen"),
        ({"roster": {"": KEYS[0]}}, "party name ''"),
        ({"roster": {"a" * 101: KEYS[0]}}, "it has 101 characters"),
        ({"roster": {".hidden": KEYS[0]}}, "party name '.hidden'"),
        ({"roster": {"a\n": KEYS[0]}}, "party name"),
        ({"privacy": "L1"}, "level L1 needs a privacy budget"),
        ({"privacy": ob.L1(2.0), "method": ob.FedKT(open_vote="odds")}, "lets one party weigh as much as thousands"),
        ({"privacy": ob.L2(2.0), "method": ob.FedKT(open_vote="odds", students=False)}, "at L2 needs students = true"),
        ({"privacy": ob.L2(2.0), "method": ob.FedKT(ballot="models", students=False)}, "needs students = true"),
        ({"privacy": ob.L1(2.0), "method": ob.FedKT(ballot="models", students=False)}, "must aggregate its teachers"),
        ({"privacy": ob.L1(2.0), "method": ob.FedKT(weights="class-counts", most_rows=10**5)}, "unit, .* and 65,536"),
        ({"learners": {"judge": TREE}}, "method fedkt has no learner judge; it has final, teacher"),
        ({"learner": ob.Sklearn("SVR")}, "'SVR' is not supported"),
        ({"learners": {"final": ob.Sklearn("SVC", {"c": 1})}}, r"SVC has no parameter c;"),
    ],
)
def test_an_election_in_python_is_checked_when_it_is_made(settings, error):
    with pytest.raises(ElectionError, match=error):
        election(**settings)


def test_the_roles_of_an_election_are_those_of_its_method():
    with_students = election(method=ob.FedKT.paper(), learners={"student": ob.Sklearn("GaussianNB")})
    assert with_students.learner_of("student").estimator == "GaussianNB"
    assert with_students.learner_of("teacher") == TREE


def test_a_party_may_choose_its_own_learners_but_not_the_final_one():
    agreed = election(learners={"final": ob.Sklearn("GaussianNB")})
    chosen = agreed.choose_learners({"teacher": ob.Sklearn("SVC")})
    assert chosen["teacher"].estimator == "SVC"
    assert agreed.choose_learners({"all": ob.Sklearn("SVC")})["teacher"].estimator == "SVC"
    assert chosen["final"].estimator == "GaussianNB"
    with pytest.raises(ElectionError, match="cannot choose the learner judge"):
        agreed.choose_learners({"judge": TREE})


def test_an_election_without_a_schema_cannot_read_files(tmp_path):
    with pytest.raises(ElectionError, match=r"no \[schema\], so .*a.csv cannot be read"):
        election().read_data(tmp_path / "a.csv")


def test_a_partys_file_is_read_with_the_schema(clinic):
    path = clinic / "election.toml"
    path.write_text(draft(clinic / "public.csv", "ill", beside=path, choices=STRICT).text, "utf-8")
    read = Election.read(path)
    data = read.read_data(clinic / "a.csv")
    assert data.X.shape[1:] == read.public.shape[1:]
    assert len(data) == 150
    lines = (clinic / "a.csv").read_text().splitlines()
    (clinic / "a.csv").write_text("\n".join([lines[0], "30,0.5,west,no", *lines[2:]]))
    with pytest.raises(DataError, match=r"a.csv, column 'ward': row 1 \('west'\) is none of the 2 categories"):
        read.read_data(clinic / "a.csv")


@given(st.integers(0, 2**31), st.text(max_size=9), st.lists(st.text(min_size=1), min_size=2, max_size=4, unique=True))
def test_only_equal_elections_have_equal_digests(seed, name, classes):
    try:
        made = election(seed=seed, name=name, classes=classes)
    except ElectionError:
        assert len({as_label(c) for c in classes}) < len(classes)
        return
    assert made.digest == election(seed=seed, name=name, classes=tuple(classes)).digest
    assert made.digest != replace(made, seed=seed + 1).digest
    assert made.digest != replace(made, name=name + "x").digest


def test_all_rows_must_have_the_type_of_the_public_set():
    """Bytes at one party and fractions at another would be different rows for the same image."""
    public = np.random.default_rng(0).integers(0, 256, (20, 4)).astype(np.uint8)
    election = ob.Election(classes=[0, 1], public=public)
    assert election.row_dtype == np.uint8
    assert election.data(public.astype(np.float64), np.arange(20) % 2).X.dtype == np.uint8
    with pytest.raises(DataError, match=r"Ann: rows are float32 but must be bytes.*do not scale them"):
        ob.cast(election, public / 255, np.arange(20) % 2, party="Ann")
    floats = ob.Election(classes=[0, 1], public=public / 255)
    with pytest.raises(DataError, match=r"Ann: rows are bytes \(uint8\) but must be float32"):
        ob.cast(floats, public, np.arange(20) % 2, party="Ann")
    tokens = ob.Election(classes=[0, 1], public=public.astype(np.int32))
    assert tokens.data(public.astype(np.int64), np.arange(20) % 2).X.dtype == np.int32
    with pytest.raises(DataError, match="must be whole numbers"):
        tokens.rows(public + 0.5)


def test_the_time_limit_of_a_model_is_set_by_the_election_and_not_in_the_digest():
    public = np.zeros((4, 2), dtype=np.float32)
    default, patient = (ob.Election(classes=[0, 1], public=public, max_model_seconds=s) for s in (60, 3600))
    assert default.digest == patient.digest
    with TallyContext(patient) as ctx:
        ctx.ask(ConstantModel(np.array([0.5, 0.5])).dump(), public, classes=2)
        assert ctx._sandbox.seconds == 3600


def test_too_many_teachers_are_rejected():
    ob.FedKT(partitions=100, subsets=100)
    with pytest.raises(ElectionError, match="101 in each of 100 partitions: a party would train 10,100 teachers"):
        ob.FedKT(partitions=100, subsets=101)
    with pytest.raises(ElectionError, match=r"subsets = 1,000,000,000: a party would train .*, 10,000 at most"):
        ob.FedKT(subsets=10**9)


def test_a_meaningless_epsilon_gives_a_warning():
    with pytest.warns(ob.OneBallotWarning, match=r"epsilon = 60 protects no one: .* whether a row was present"):
        election(privacy=ob.L2(epsilon=60.0))
    with pytest.warns(ob.OneBallotWarning, match=r"epsilon = \d+.* protects no one: .* whether a party was present"):
        election(privacy=ob.L1(sigma=0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ob.OneBallotWarning)
        warnings.simplefilter("ignore", WillNotWork)
        election(privacy=ob.L2(epsilon=49.0))
        election(privacy=ob.L2(sigma=0.1, rehearsal=True, noise_seed=1))


def test_unsupported_settings_are_rejected_when_the_file_is_read(drafted):
    drafted.write_text(
        draft(drafted.parent / "public.csv", "ill", beside=drafted, method=section("fedkd")).text, "utf-8"
    )
    altered(drafted, "temperature = 0.0 ", "passes = 3\ntemperature = 0.0 ")
    with pytest.raises(ElectionError, match=r"election.toml: passes = 3 needs images, .*set passes = 1"):
        Election.read(drafted)


def test_more_queries_than_public_rows_are_rejected_before_training():
    with pytest.raises(ElectionError, match="queries = 7, but there are only 6 public rows"):
        election(method=ob.FedKT(queries=7))
