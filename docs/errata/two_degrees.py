"""Erratum 7: where gradient descent goes if contexts have different degrees, and the residuals of Theorem 3.1 there."""

import torch

from implicit_bias import stationarity


class TwoDegrees(torch.nn.Module):
    """f_w(x; γ) = ⟨P_γ(w), x⟩ with P_1(w) = w and P_2(w) = w ∘ w; the last input is the context γ."""

    def __init__(self, w):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(w).double())

    def forward(self, X):
        """Outputs (n,)."""
        return torch.where(X[:, -1] == 1, X[:, :-1] @ self.w, X[:, :-1] @ self.w**2)


X, y = [[1.0, 1.0, 1.0], [-0.25, 0.0, 2.0]], [1, -1]


def descended(steps):
    """Gradient descent on Σ_i exp(−y_i f_w(x_i)) from w = (1, 1) with the learning rates η_t = 0.1/loss."""
    network, inputs, signs = TwoDegrees([1.0, 1.0]), torch.tensor(X).double(), torch.tensor(y)
    for _ in range(steps):
        (gradient,) = torch.autograd.grad(torch.logsumexp(-signs * network(inputs), 0), [network.w])
        network.w.data -= 0.1 * gradient
    return network


if __name__ == "__main__":
    for steps in (100, 1000, 10_000):
        network = descended(steps)
        direction = network.w / network.w.norm()
        tight, lowest = (stationarity(network, X, y, support=support).residual for support in ("tight", "lowest"))
        found = f"w/‖w‖ = ({direction[0]:.4f}, {direction[1]:.4f})"
        print(f"{steps:5d} steps: {found}, residual of eq. 6 {tight:.4f}, of the lowest degree {lowest:.4f}")
    for w in ([2.0, 0.0], [-2.0, 3.0]):
        print(f"residual of eq. 6 at w = {tuple(w)}: {stationarity(TwoDegrees(w), X, y).residual:.4f}")
