"""The built-in networks are those of the papers, and their settings have bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from oneballot.errors import DataError, ElectionError  # noqa: E402
from oneballot.fleet.models.architectures import ARCHITECTURES, build, check_settings, expected, shape_of, widest  # noqa: E402
from oneballot.fleet.models.inputs import as_tensor, check_tokens, move, scaled  # noqa: E402
from oneballot.fleet.models.network import built_in  # noqa: E402
from oneballot.fleet.models.text import Attention, BiLSTM  # noqa: E402
from oneballot.fleet.models.weights import initial_weights  # noqa: E402

torch.set_num_threads(1)
PAPERS = [  # (architecture, settings, shape, classes, parameters without the table of words)
    ("mlp", {"hidden": []}, (784,), 10, 784 * 10 + 10),
    ("mlp", {}, (784,), 10, 784 * 100 + 100 + 100 * 100 + 100 + 100 * 10 + 10),
    ("cnn", {}, (1, 28, 28), 10, 156 + 2416 + 256 * 120 + 120 + 120 * 84 + 84 + 850),
    ("lenet", {}, (1, 28, 28), 10, 61_706),  # DOSFL, Table 3
    ("convnet", {}, (3, 32, 32), 10, 1728 + 128 + 73_728 + 256 + 294_912 + 512 + 4096 * 10 + 10),
    ("textcnn", {"vocabulary": 2}, (200,), 1, 120_601 + 200),
    ("bilstm", {"vocabulary": 2}, (30,), 6, 404_406 + 200),
    ("vgg9", {}, (3, 32, 32), 2, 896 + 18496 + 73856 + 147584 + 295168 + 590080 + 4096 * 512 + 512 + 262656 + 1026),
]


@pytest.mark.parametrize(("name", "settings", "shape", "classes", "count"), PAPERS, ids=[p[0] for p in PAPERS])
def test_a_network_has_as_many_parameters_as_in_its_paper(
    name: str, settings: dict[str, Any], shape: tuple[int, ...], classes: int, count: int
) -> None:
    module = build(name, check_settings(name, settings), shape, classes)
    assert sum(p.numel() for p in module.parameters()) == count


def convolutions(module: nn.Module) -> int:
    return sum(isinstance(m, nn.Conv2d | nn.Linear) and m.weight.shape[-1] != 1 for m in module.modules())


@pytest.mark.parametrize(("name", "layers"), [("resnet8", 8), ("resnet34", 34)])
@pytest.mark.parametrize("side", [32, 80])
def test_a_resnet_has_the_layers_in_its_name(name: str, layers: int, side: int) -> None:
    with torch.device("meta"):
        assert convolutions(build(name, check_settings(name, {}), (3, side, side), 10)) == layers


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_expected_shapes_are_those_of_the_built_network(name: str) -> None:
    takes = ARCHITECTURES[name].takes
    settings = check_settings(name, {"vocabulary": 9} if takes == "tokens" else {})
    shape = (3, 16, 16) if takes == "images" else (9,)
    module = build(name, settings, shape, 5)
    assert expected(name, settings, shape, 5) == {k: tuple(v.shape) for k, v in module.state_dict().items()}
    x = torch.zeros(2, *shape, dtype=torch.int32 if takes == "tokens" else torch.float32)
    network = built_in(name, settings, shape, 5)
    assert network.make(network.start(1)).eval()(x).shape == (2, 5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_widest_bounds_the_activations_of_a_row(name: str) -> None:
    """No layer's output is larger, and the bound is not far above the largest: it decides how rows are split."""
    takes = ARCHITECTURES[name].takes
    shape = (3, 24, 24) if takes == "images" else (30,)
    settings = check_settings(name, {"vocabulary": 9, "dimension": 8} if takes == "tokens" else {})
    module, seen = build(name, settings, shape, 5).eval(), [1]

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                seen.append(out.numel() // 100)
            return out

    with torch.no_grad(), Watch():
        module(torch.zeros(100, *shape, dtype=torch.int32 if takes == "tokens" else torch.float32))
    assert max(seen) <= widest(name, settings, shape) <= 3 * max(seen)


def test_expected_shapes_allocate_nothing() -> None:
    with torch.device("meta"):
        assert build("transformer", check_settings("transformer", {}), (1 << 20,), 2).places.is_meta


def test_initial_weights_follow_torchs_distribution_and_the_seed() -> None:
    module = build("cnn", check_settings("cnn", {}), (1, 28, 28), 10)
    one, same, other = (initial_weights(module, seed) for seed in (1, 1, 2))
    assert one.keys() == dict(module.named_parameters()).keys()
    for name, values in one.items():
        layer = module.get_submodule(name.rpartition(".")[0])
        bound = 1 / math.sqrt(layer.weight[0].numel())
        assert 0.7 * bound < np.abs(values).max() <= bound
        np.testing.assert_array_equal(values, same[name])
        assert not np.array_equal(values, other[name])


def test_the_lstm_agrees_with_torch_and_skips_padding() -> None:
    torch.manual_seed(0)
    ours = BiLSTM(classes=3, vocabulary=9, dimension=4, embedding="trained", hidden=5, layers=2)
    theirs = nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True)
    for depth, both in enumerate(ours.layers):
        for way, end in zip(both, ("", "_reverse"), strict=True):
            for kind, part in (("ih", way.inward), ("hh", way.onward)):
                getattr(theirs, f"weight_{kind}_l{depth}{end}").data = part.weight.data
                getattr(theirs, f"bias_{kind}_l{depth}{end}").data = part.bias.data
    tokens = torch.tensor([[3, 1, 2, 8, 4], [5, 2, 0, 0, 0], [7, 0, 0, 0, 0]])
    packed = nn.utils.rnn.pack_padded_sequence(ours.embedding(tokens), torch.tensor([5, 2, 1]), batch_first=True)
    _, (last, _) = theirs(packed)
    torch.testing.assert_close(ours(tokens), ours.out(torch.cat([last[-2], last[-1]], -1)))


def test_attention_agrees_with_torch_and_ignores_padding() -> None:
    torch.manual_seed(0)
    ours = Attention(dimension=8, heads=2, width=6, dropout=0.0)
    theirs = nn.TransformerEncoderLayer(8, 2, 6, dropout=0.0, batch_first=True, norm_first=True)
    theirs.self_attn.in_proj_weight.data = ours.inward.weight.data
    theirs.self_attn.in_proj_bias.data = ours.inward.bias.data
    for part, other in (
        (ours.outward, theirs.self_attn.out_proj), (ours.wide, theirs.linear1), (ours.narrow, theirs.linear2),
    ):  # fmt: skip
        other.load_state_dict(part.state_dict())
    x, hidden = torch.randn(3, 4, 8), torch.tensor([[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 1, 1]]).bool()
    mine, torchs = ours(x, hidden), theirs.train()(x, src_key_padding_mask=hidden)
    torch.testing.assert_close(mine[~hidden], torchs[~hidden])


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("mpl", {}, "there is no architecture 'mpl'; there are mlp, cnn"),
        ("mlp", {"layers": 3}, "mlp has no setting layers; it has hidden, shape"),
        ("mlp", {"hidden": [100, 0]}, "hidden must be a list of 0 to 8 whole numbers"),
        ("mlp", {"hidden": [10**9]}, "hidden must be"),
        ("mlp", {"hidden": [100.0]}, "hidden must be"),
        ("mlp", {"hidden": "100"}, "hidden must be"),
        ("mlp", "big", "settings must be a table of names and values"),
        ("resnet8", {"width": True}, "width must be a whole number from 1 to 256, not True"),
        ("convnet", {"channels": [64, 128]}, "channels must be a list of 3 to 3 whole numbers from 1 to 512"),
        ("vgg9", {"dropout": 1.0}, "dropout must be a number from 0 up to 1"),
        ("vgg9", {"dropout": float("nan")}, "dropout must be"),
        ("textcnn", {"embedding": "borrowed"}, "embedding must be one of trained, frozen"),
        ("transformer", {"dimension": 10, "heads": 3}, "3 heads do not divide the dimension 10"),
        ("cnn", {"shape": [1, 2, 3, 4]}, "shape must be"),
    ],
    ids=str,
)
def test_invalid_settings_are_refused(name: str, settings: Any, says: str) -> None:
    with pytest.raises(ElectionError, match=says):
        check_settings(name, settings)


@pytest.mark.parametrize(
    ("name", "settings", "row", "outcome"),
    [
        ("mlp", {}, (28, 28), (784,)),
        ("cnn", {}, (28, 28), (1, 28, 28)),
        ("cnn", {"shape": [3, 16, 16]}, (768,), (3, 16, 16)),
        ("cnn", {}, (784,), r"say what they are, as in settings = \{shape = \[1, 28, 28\]\}"),
        ("cnn", {"shape": [1, 28, 28]}, (783,), r"shape = \[1, 28, 28\] does not fit"),
        ("cnn", {}, (1, 15, 28), "at least 16 pixels"),
        ("textcnn", {"widths": [3, 9]}, (8,), "takes rows of 9 or more token numbers"),
        ("bilstm", {}, (3, 4), "token numbers"),
        ("mlp", {}, (), "expected 1 to"),
        ("mlp", {}, (1 << 21,), "expected 1 to"),
    ],
    ids=str,
)
def test_rows_that_do_not_fit_are_refused(name: str, settings: Any, row: tuple[int, ...], outcome: Any) -> None:
    settings = check_settings(name, settings)
    if isinstance(outcome, tuple):
        assert shape_of(name, settings, row) == outcome
    else:
        with pytest.raises(ElectionError, match=outcome):
            shape_of(name, settings, row)


def test_one_logit_is_for_two_classes_and_leaves_no_trace_where_it_is_not_set() -> None:
    assert "one_logit" not in check_settings("textcnn", {"one_logit": False})
    settings = check_settings("textcnn", {"one_logit": True})
    assert settings["one_logit"] is True
    assert expected("textcnn", settings, (9,), 2)["out.weight"] == (1, 300)
    with pytest.raises(ElectionError, match="one_logit is for two classes, but there are 3"):
        expected("textcnn", settings, (9,), 3)
    with pytest.raises(ElectionError, match="one_logit must be true or false"):
        check_settings("bilstm", {"one_logit": 1})


def test_rows_are_converted_to_what_a_network_takes() -> None:
    bytes_ = as_tensor(np.array([[0, 51, 255]], dtype=np.uint8))
    torch.testing.assert_close(scaled(bytes_, torch.float32), torch.tensor([[0, 0.2, 1]]))
    assert scaled(as_tensor(np.array([[1.5]])), torch.float32).dtype == torch.float32
    whole = np.array([[3]], dtype=np.int64)
    assert scaled(as_tensor(whole), torch.float32).dtype == torch.int64  # a custom module may want them
    assert scaled(as_tensor(whole, takes="numbers"), torch.float32).dtype == torch.float32
    for kind in (np.uint8, np.int8, np.int64, np.float32):
        assert scaled(as_tensor(whole.astype(kind), takes="tokens"), torch.float32).tolist() == [[3]]


def test_an_image_is_mirrored_and_shifted() -> None:
    image = torch.arange(1, 13, dtype=torch.uint8).reshape(1, 1, 3, 4)
    still, down, left, mirror, both = move(
        image.expand(5, 1, 3, 4), torch.tensor([[0, 0, 0], [1, 0, 0], [0, -1, 0], [0, 0, 1], [-2, 2, 1]])
    )[:, 0].tolist()
    assert still == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    assert down == [[0, 0, 0, 0], [1, 2, 3, 4], [5, 6, 7, 8]]
    assert left == [[2, 3, 4, 0], [6, 7, 8, 0], [10, 11, 12, 0]]
    assert mirror == [[4, 3, 2, 1], [8, 7, 6, 5], [12, 11, 10, 9]]
    assert both == [[0, 0, 12, 11], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    check_tokens(np.array([[0, 8]], dtype=np.int32), 9)
    check_tokens(np.array([[0.0, 8.0]]), 9)
    for bad in (np.array([[9]], dtype=np.int32), np.array([[-1]], dtype=np.int32), np.array([[0.5]])):
        with pytest.raises(DataError, match=r"expected 0 \(padding\) to 8|must be token numbers"):
            check_tokens(bad, 9)
