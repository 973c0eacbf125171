"""
Growth of a receptive field
===========================

The inputs are patterns on a ring of 40 pixels, smooth in one class and rough in the other. The two gates of the network
open on the sign of a single pixel. Its gradient flow on the entire distribution has a closed form, so neither samples
nor steps are needed:

.. math::

   w(t) = e^{-At/K\\tau}\\,w_0 + \\varphi(A)\\,b, \\quad \\varphi(\\lambda) = \\frac{1 - e^{-\\lambda t/K\\tau}}\\lambda

With labels 1 and 0, a larger gain g, which saturates the pixels, leads to more local weights.
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
# Top: a pattern of each class at the smallest and largest gain. Middle: the weights of the open gate over time, and in
# the limit. Bottom: the inverse participation ratio. Coarse structure is learned first, and the field localises late.

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
    axes[1, column].legend(frameon=False, fontsize=9, handlelength=1.2)
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
axes[2, 0].legend(frameon=False, fontsize=9, handlelength=1.2)
for ax in axes.flat:
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
