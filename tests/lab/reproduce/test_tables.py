"""The declared tables: all tables of the papers, their figures to the digit, and settings that work together."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot import plugins
from oneballot.cli import app
from oneballot.comparison import check_peer
from oneballot.errors import OneBallotError
from oneballot.privacy.calculator import Question
from oneballot.runtime.scheduler import run
from oneballot_lab.reproduce.catalog import all_tables, select
from oneballot_lab.reproduce.cells import Result, cell_digest
from oneballot_lab.reproduce.dosfl import BreakEven
from oneballot_lab.reproduce.experiments import ElectionRun, PeerRun, make_election
from oneballot_lab.reproduce.federations import TABULAR, FederatedData, Federation
from oneballot_lab.reproduce.privacy_sweep import Budget, PrivacySweep
from oneballot_lab.reproduce.tables.dosfl_costs import ratio, reduction
from oneballot_lab.reproduce.tables.fedkt_rounds import rounds_to_reach

sys.path.insert(0, str(Path(__file__).parent))
from tiny import TREE

TABLE_NAMES = {
    "fedkt": "table1 table2 table3",
    "fedkt-long": "table1 table5 table6 table7 table8 table9 table10 table11 table14 table15 table16 figure2",
    "ensemble": "figure1 figure2 figure3",
    "fedkd": "table1 table2 table5 figure2",
    "dosfl": "table1 table2 table3 table4 table6 figure2 figure3 figure7",
    "ours": "beta foreign privacy rounds",
}
PRINTED = [
    ("fedkt/table1", "Adult", "FedKT", 82.2, 0.6), ("fedkt/table1", "MNIST, MLP", "FedDF, 1 round", 83.8, None),
    ("fedkt/table1", "SVHN", "SCAFFOLD, 1 round", 16.2, None),
    ("fedkt/table1", "cod-rna", "pooled data (upper bound)", 91.2, None),
    ("fedkt/table2", "cod-rna, L2", "γ = 0.05, 2 % queries", 84.7, None),
    ("fedkt/table3", "SVHN", "FedKT, 20%", 80.1, None),
    ("fedkt-long/table1", "MNIST", "FedProx, 50 rounds", 98.6, None),
    ("fedkt-long/table5", "Adult", "s = 5", 81.1, 0.1),
    ("fedkt-long/table6", "cod-rna", "t = 15", 83.1, 0.6), ("fedkt-long/table7", "MNIST", "SOLO, β = 0.1", 43.4, None),
    ("fedkt-long/table8", "Adult", "FedKT, 30 parties", 83.6, None),
    ("fedkt-long/table9", "MNIST", "FedAvg, 5 parties, 2 rounds", 93.0, None),
    ("fedkt-long/table10", "MNIST", "FedKT, 40%", 95.1, None),
    ("fedkt-long/table11", "SVHN", "without consistent voting", 81.6, None),
    ("fedkt-long/table14", "CelebA", "FedAvg, 50 rounds", 95.1, None),
    ("fedkt-long/table15", "adult, L1, het", "γ = 0.08, 0.5 % queries", 76.3, None),
    ("fedkt-long/table16", "cod-rna, L2, hom", "γ = 0.04, 1.5 % queries", 84.0, None),
    ("fedkt-long/figure2", "MNIST", "rounds of FedAvg to reach FedKT", 23, None),
    ("fedkd/table1", "CIFAR-10, CIFAR-100", "FedKD, α = 0.1", 65.46, 3.45),
    ("fedkd/table1", "CIFAR-100", "FedMD, α = 1", 45.83, 0.58),
    ("fedkd/table2", "CIFAR-10, C", "equation 1, τ = 3", 80.01, None),
    ("fedkd/table5", "SST-2", "Standalone", 74.80, 5.05), ("dosfl/table1", "MNIST, 100", "SR, non-IID", 78.29, None),
    ("dosfl/table2", "TREC", "FedAvg, 29, non-IID", 13.70, None),
    ("dosfl/table4", "IMDB", "reduction, %, 100", 66.83, None),
    ("dosfl/table6", "Sent140", "LP-DOSFL, 100, non-IID", 74.60, None),
    ("dosfl/figure2", "MNIST, 10 p", "LP-DOSFL, IID", 98.85, None),
    ("ensemble/figure1", "EMNIST", "gain over local", 51.5, None),
]  # fmt: skip


def test_every_table_is_listed():
    expected = {f"{paper}/{part}" for paper, parts in TABLE_NAMES.items() for part in parts.split()}
    assert set(all_tables()) == expected
    result = CliRunner().invoke(app, ["reproduce", "--list", "--json"])
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)["tables"]) == expected


@pytest.mark.parametrize(("table", "row", "line", "value", "deviation"), PRINTED)
def test_figures_are_those_of_the_paper(table, row, line, value, deviation):
    declared = next(r for r in all_tables()[table].rows if r.name.startswith(row))
    figure = next(c for c in declared.lines if c.name.startswith(line)).paper
    assert figure is not None
    assert (figure.value, figure.deviation) == (value, deviation)


@pytest.mark.parametrize("table", all_tables().values(), ids=lambda t: t.name)
def test_every_row_has_distinct_lines_and_our_own(table):
    for row in table.rows:
        names = [line.name for line in row.lines]
        assert len(set(names)) == len(names), f"{row.name}: two lines with the same name"
        assert all(line.experiments or line.remark for line in row.lines), "a line without experiments says why"
    ours = [row for row in table.rows if any(line.name.startswith("ours") for line in row.lines)]
    if table.name.startswith("ours/"):  # all of its lines are, and name their methods
        ours = list(table.rows)
    assert ours == [row for row in table.rows if not row.name.startswith("distilled for")]
    if table.name != "dosfl/table3":  # it compares sizes only
        assert all(any("out-of-domain" in line.name for line in row.lines) or "epsilon" in str(row) for row in ours)
    for cell in (*table.cells(), *table.reduced().cells()):
        cell_digest(*cell)


def test_a_reduced_table_names_and_uses_smaller_networks():
    for name, text, module in (("dosfl/table1", "an MLP for LeNet", "mlp"), ("fedkd/table2", "a CNN", "cnn")):
        small = all_tables()[name].reduced()
        assert any(text in note for note in small.notes)
        assert small.rows[0].lines[0].experiments[0].learner.module == module
        assert not any(text in note for note in all_tables()[name].notes)


def test_the_batch_of_distilled_images_matches_the_papers_figures():
    """40 images per step reach its accuracies (table 1), 10 give its break-even round (table 3)."""
    accuracy, sizes = (all_tables()[f"dosfl/{name}"] for name in ("table1", "table3"))
    methods = [line.experiments[0].method for row in accuracy.rows for line in row.lines if "ours" not in line.name]
    assert {(m.batch, m.local_epochs, m.learning_rate, m.decay_period) for m in methods} == {(40, 30, 0.02, 10)}
    assert any("40 inputs per step" in note for note in accuracy.notes)
    assert sizes.rows[0].lines[0].experiments[0].method == ob.DOSFL.paper("mnist")


def test_texts_are_distilled_with_settings_that_learn():
    """One logit and labels of any sign for two classes; one sentence per class for six. Break-even rounds are the
    paper's, with one sentence per step."""
    for name in ("table2", "table4", "table6"):
        for row in all_tables()[f"dosfl/{name}"].rows:
            runs = [
                e for line in row.lines for e in line.experiments if isinstance(getattr(e, "method", None), ob.DOSFL)
            ]
            if row.group in ("imdb", "sent140"):
                assert {(r.method.batch, r.method.negative_labels, r.method.decay) for r in runs} == {(2, True, 1.0)}
                assert all(r.learner.settings["one_logit"] for r in runs)
            elif row.group == "trec":
                assert {r.method.batch for r in runs} == {6}
                assert not any(r.method.negative_labels for r in runs)
    trec = next(row for row in all_tables()["dosfl/table2"].rows if row.group == "trec")
    methods = {line.name: line.experiments[0].method for line in trec.lines if line.name.startswith("DOSFL, 2, ")}
    tried = {(m.epochs, m.first_rate, m.merging) for m in methods.values()}
    assert tried == {(e, r, how) for e, r in ((1, 1.5), (6, 0.3)) for how in ("interleaved", "averaged", "weights")}
    assert all(m.loss_classes == ("own" if "non-IID" in name else "all") for name, m in methods.items())
    sizes = {line.name: line for line in all_tables()["dosfl/table3"].rows[0].lines}
    for text, weights in (("IMDB, TextCNN", 120_601), ("TREC-6, Bi-LSTM", 404_406)):
        line = sizes[f"{text}: weights"]
        assert line.experiments[0].method.batch == 1
        assert line.experiments[0].run(0, "cpu").values["weights"] == line.paper.value == weights


def test_replaying_servers_are_labelled_and_have_no_figure_of_the_paper():
    for row in all_tables()["dosfl/figure2"].rows:
        for line in row.lines:
            replays = any(getattr(run, "replay", False) for run in line.experiments)
            assert replays == ("replays" in line.name)
            assert line.paper is None or not replays


SHAPES = {"adult": (123,), "cod-rna": (8,), "mnist": (1, 28, 28), "chest-xray": (1, 28, 28),
          "pneumoniamnist": (1, 28, 28)}  # fmt: skip
CLASSES = {"mnist": 10, "svhn": 10, "cifar10": 10, "cifar100": 100}


@pytest.mark.slow
def test_every_election_and_peer_of_every_table_has_valid_settings():
    """Finds settings that do not work together here, not after an hour of training."""
    for extra in ("torch", "xgboost"):
        pytest.importorskip(extra)
    tried = set()
    for table in all_tables().values():
        for experiment, seed in table.configure(seeds=1).cells():
            if not isinstance(experiment, ElectionRun | PeerRun) or experiment.federation.vocabulary:
                continue  # texts need their vocabulary
            federation = experiment.federation
            same = replace(federation, parties=1, split="homogeneous", share=1.0, public=federation.public == "none")
            if (digest := cell_digest(replace(experiment, federation=same), seed)) in tried:
                continue
            tried.add(digest)
            floats = federation.scaled or federation.data in TABULAR
            X = np.zeros((4, *SHAPES.get(federation.data, (3, 32, 32))), np.float32 if floats else np.uint8)
            y, public = np.zeros(4, int), X[:0] if federation.public == "none" else X
            data = FederatedData(X, y, X, y, public, y, CLASSES.get(federation.data, 2))
            settings = {}
            if isinstance(experiment, ElectionRun):
                settings = {"method": experiment.method, "privacy": experiment.privacy}
            election = make_election(experiment, data, 0, "cpu", **settings)
            if isinstance(experiment, PeerRun):
                check_peer(plugins.find("peers", experiment.peer)(**experiment.settings), election)
    assert len(tried) > 150


def test_tables_are_selected_by_name_paper_and_data_set():
    assert [t.name for t in select(["fedkt"], [])] == ["fedkt/table1", "fedkt/table2", "fedkt/table3"]
    adult = select([], ["adult"])
    assert {row.group for table in adult for row in table.rows} == {"adult"}
    with pytest.raises(OneBallotError, match="Did you mean 'fedkt/table1'"):
        select(["fedkt/tabel1"], [])
    with pytest.raises(OneBallotError, match=r"no table has rows on moon; expected one of .*adult"):
        select([], ["moon"])
    with pytest.raises(OneBallotError, match=r"no table has rows on adlut; .*Did you mean 'adult'\?"):
        select(["fedkt"], ["adlut"])
    with pytest.raises(OneBallotError, match=r"fedkt/table2 has no row on mnist; it has rows on adult, cod-rna"):
        select(["fedkt/table2"], ["mnist"])


def test_a_privacy_sweep_has_the_calculators_epsilons_and_less_noise_gives_more_accuracy():
    loud, quiet = ob.L2(gamma=0.04, stable_ids=True), ob.L2(gamma=5.0, stable_ids=True)
    budgets = (Budget("loud", loud, 40), Budget("few", loud, 8), Budget("quiet", quiet, 200))
    federation = Federation("digits", 2, "homogeneous", public_rows=200, test_rows=200)
    method = ob.FedKT.paper(partitions=1, subsets=5)
    values = run(PrivacySweep(federation, method, TREE, budgets).run(0, "cpu")).values
    expected = Question({"gamma": 0.04}, 40, classes=10, level="L2").epsilon("laplace", 25.0, 40)
    assert values["loud epsilon"] == pytest.approx(expected, rel=1e-9)
    assert values["loud paper"] == pytest.approx(2.5911, abs=1e-4)  # as in table 2 of the paper
    assert values["few paper"] == pytest.approx(0.64)  # as in table 15
    assert values["loud paper, data-dependent"] <= values["loud paper"] + 1e-9
    assert values["quiet accuracy"] > 0.45 > values["loud accuracy"] + 0.05  # noise cannot be seeded


def test_the_break_even_round_follows_equation_5():
    lenet = ob.Torch("lenet", settings={"shape": [1, 28, 28]})
    values = BreakEven(lenet, (1, 28, 28), 784, 10, ob.DOSFL.paper()).run(0, "cpu").values
    assert values["weights"] == 61_706
    assert round(values["rounds"], 2) == 19.83


def test_rounds_to_reach_an_accuracy_are_counted_from_one():
    peer = Result({}, {"accuracy": [0.5, 0.8, 0.7], "bytes": [10.0, 20.0, 30.0]})
    one_shot = [Result({"accuracy": share, "bytes": 4.0}) for share in (0.8, 0.81)]
    assert rounds_to_reach([peer, one_shot[0]]).value == 2
    assert rounds_to_reach([peer, one_shot[0]]).bytes == 20
    assert math.isnan(rounds_to_reach([peer, one_shot[1]]).value)
    assert ratio([peer, one_shot[0]]).value == 5
    assert reduction([peer, one_shot[0]]).value == pytest.approx(80)
