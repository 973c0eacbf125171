"""
Growth of a receptive field
===========================

Patterns on a ring of 40 pixels: smooth ones in one class, rough ones in the other. A network whose two gates ask for
the sign of a single pixel learns along a gradient flow that is known exactly, for the whole distribution at once,
without a sample and without a step:

.. math::

   w(t) = e^{-At/K\\tau}\\,w_0 + \\varphi(A)\\,b, \\quad \\varphi(\\lambda) = \\frac{1 - e^{-\\lambda t/K\\tau}}\\lambda

With labels 1 and 0, the more the pixels saturate (the gain g), the more local are the weights in the end.
"""

# %%
# ``pixel_moments`` gives A and b of the distribution. The inverse participation ratio is 1/n for a flat field and 1 for
# a single pixel.

import numpy as np

from implicit_bias.extensions.gated_flow import gradient_flow, ipr, nonlinear_gaussian_process, pixel_moments

n, pixel = 40, 20
times = np.logspace(-0.5, 3, 120)
flows = {}
for gain in (0.01, 3.0, 100.0):
    process = nonlinear_gaussian_process(n, length_scales=(5.0, 1.0), gain=gain, labels=(1.0, 0.0))
    flows[gain] = gradient_flow(pixel_moments(process, pixel), np.zeros((2, n)), times)
    found = flows[gain]
    print(f"g = {gain:<5g} IPR {ipr(found.limit)[0]:.3f}   loss {found.losses[0]:.3f} → {found.moments.best_loss:.3f}")

# %%
# Top: a pattern of each class at either end of the gains. Middle: the weights of the open gate over time, and in the
# end. Bottom: how local they are. Large structures are learned first; what sharpens the field comes late.

import matplotlib.pyplot as plt

COLOURS = {0.01: "#0072B2", 3.0: "#E69F00", 100.0: "#D55E00"}
figure, axes = plt.subplots(3, 3, figsize=(9.5, 8.0), height_ratios=(1, 1.6, 1.3), layout="constrained")
for column, (gain, flow) in enumerate(flows.items()):
    X, y = nonlinear_gaussian_process(n, (5.0, 1.0), gain, labels=(1.0, 0.0)).sample(40, seed=3)
    for label, colour in ((1.0, "0.15"), (0.0, "0.65")):
        axes[0, column].plot(X[y == label][0], color=colour, linewidth=1.2, drawstyle="steps-mid")
    axes[0, column].set(title=f"g = {gain:g}", xticks=[], yticks=[0])
    late = (0, 20, 45, 119)
    for step, shade in zip(late, (0.25, 0.5, 0.75, 1.0), strict=True):
        label = f"t = {times[step]:.1f}"
        field = flow.weights(times[step])[0]
        axes[1, column].plot(field, color=COLOURS[gain], alpha=shade, label=label)
    axes[1, column].axhline(0, color="0.7", linewidth=0.6, zorder=0)
    axes[1, column].legend(frameon=False, fontsize=8)
    axes[1, column].set(xlabel="pixel")
    axes[2, 0].semilogx(times, ipr(flow.weights()[:, 0]), color=COLOURS[gain], label=f"g = {gain:g}")
    share = (flow.losses - flow.moments.best_loss) / (flow.losses[0] - flow.moments.best_loss)
    axes[2, 1].loglog(times, share, color=COLOURS[gain])
    spectrum = np.sort(flow.moments.spectra[0].values)[::-1]
    axes[2, 2].semilogy(np.arange(1, n + 1), spectrum, ".", color=COLOURS[gain])
axes[0, 0].set_ylabel("a pattern of each class")
axes[1, 0].set_ylabel("weights of the open gate")
axes[2, 0].set(xlabel="time", ylabel="IPR", title="locality")
axes[2, 1].set(xlabel="time", ylabel="share of it", title="loss still to lose")
axes[2, 2].set(xlabel="rank", ylabel="λ", title="eigenvalues of A")
axes[2, 0].legend(frameon=False, fontsize=8)
for ax in axes.flat:
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
