"""Initial weights against PyTorch's own rules."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from oneballot.fleet.models.network import built_in  # noqa: E402
from oneballot.methods.dosfl.initialization import RULES, draw_initial_weights  # noqa: E402

NET = built_in("cnn", {}, (1, 16, 16), 10)
TORCH = {
    "xavier": torch.nn.init.xavier_normal_,
    "xavier-uniform": torch.nn.init.xavier_uniform_,
    "kaiming": lambda w: torch.nn.init.kaiming_normal_(w, nonlinearity="relu"),
    "kaiming-uniform": lambda w: torch.nn.init.kaiming_uniform_(w, nonlinearity="relu"),
    "orthogonal": torch.nn.init.orthogonal_,
}


@pytest.mark.parametrize("rule", TORCH)
def test_weights_of_each_rule_have_the_deviation_and_bound_of_torchs(rule: str) -> None:
    torch.manual_seed(0)
    for name, value in draw_initial_weights(NET, rule, 5).items():
        if name.endswith("bias"):
            assert not value.any()
            continue
        theirs = TORCH[rule](torch.empty(value.shape)).numpy()
        assert value.std() == pytest.approx(theirs.std(), rel=0.2)
        if rule == "orthogonal":
            flat = value.reshape(len(value), -1).astype(np.float64)
            gram = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
            np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-5)
        if rule.endswith("uniform"):
            assert np.abs(value).max() == pytest.approx(np.abs(theirs).max(), rel=0.1)


def test_the_rule_torch_gives_the_networks_own_weights() -> None:
    assert set(RULES) == {"torch", *TORCH}
    own = NET.start(5)
    assert all(np.array_equal(value, own[name]) for name, value in draw_initial_weights(NET, "torch", 5).items())
