"""Erratum 10: gradient of the published loss, binary cross-entropy of a sigmoid in single precision, at outputs f.

Columns: f, derivatives of the published loss and of log(1 + exp(−yf)) for the label y = 1, and for y = −1.
"""

import torch

for f in (-120.0, -60.0, -40.0, -30.0, -28.0, -10.0, 10.0, 16.0, 18.0, 120.0):
    found = []
    for label in (1.0, 0.0):
        for loss in (
            lambda out, y: torch.nn.functional.binary_cross_entropy(torch.sigmoid(out), y),
            torch.nn.functional.binary_cross_entropy_with_logits,
        ):
            output = torch.tensor([f], requires_grad=True)
            loss(output, torch.tensor([label])).backward()
            found.append(float(output.grad))
    print(f"{f:6.1f}: " + ", ".join(f"{value:.3e}" for value in found))
