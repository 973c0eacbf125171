"""The settings of the native solver: every number that trades time, memory or accuracy."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Settings of `NativeSolver`; the defaults are measured on two to sixteen cores.

    Gaps are relative: 1 − lower bound/upper bound. Shares are fractions of what the comment names.

    Examples
    --------
    Keep all samples in one step, whatever their number:

    >>> from implicit_bias import ConstantGate, solve, svm_gln
    >>> from implicit_bias.solvers.native import NativeSolver
    >>> solver = NativeSolver(Settings(all_samples_up_to=10**9))
    >>> solve(svm_gln([[2.0, 0.0], [-2.0, 1.0]], [1, -1], ConstantGate()), solver).solver
    'NATIVE'
    """

    # Limits of a solve.
    #: Iterations of all rounds together if `solve` has no limit: a round needs 5 to 20.
    max_iterations: int = 5000
    #: Seconds by which an iteration, expected to be as fast as the last one, may exceed the time limit.
    overrun: float = 0.1
    #: Multiplications per second of an iteration, before any was measured.
    speed: float = 5e9

    #: Largest C c_i ‖φ(x_i)‖ up to which a soft margin is not first solved as a hard one.
    large_bound: float = 1e6

    # The interior-point method.
    #: Share of the way to the boundary that a step takes.
    to_boundary: float = 0.99
    #: Least centring parameter σ; values below cost about two more iterations.
    least_centring: float = 0.05
    #: The same of a second attempt, after one without progress.
    restart_centring: float = 0.2
    #: Longest step below which a direction is corrected, so that products of pairs are of similar size.
    short_step: float = 0.8
    #: Step beyond the longest one, at whose end the products are corrected.
    beyond: float = 0.5
    #: Factor by which corrected products may differ from their target.
    spread: float = 10.0
    #: Increase of the longest step at which a corrected direction replaces the other.
    longer: float = 0.05
    #: Hard margins below this, for samples of mean square length 1, count as zero; a proof of inseparability is sought.
    no_margin: float = 1e-9
    #: Margins below this are close to a proof of inseparability: patience is not extended.
    nearly_no_margin: float = 1e-6
    #: Step length below which there is no progress.
    shortest_step: float = 1e-6
    #: Iterations without better bounds after which the method ends; three times as many while no weights separate.
    patience: int = 15
    #: A gap below that of the iterate this many back, counting the current one as the first, is progress.
    recent: int = 5
    #: Iterations after which a warm start without separating weights is replaced by a cold one.
    warm_iterations: int = 6

    # The separability linear program: for hard margins, through features that are few.
    #: Iterations without separating weights after which this program is solved; negative: never.
    separability_after: int = 8
    #: Samples above which this program is solved: with fewer, further iterations are cheaper.
    separability_from: int = 1000
    #: Largest number of its iterations, of which it needs 10 to 30.
    separability_iterations: int = 100

    # Linear algebra.
    #: Features per sample up to which steps use the features instead of the kernels.
    features_per_sample: float = 0.5
    #: Columns of the factor of a group's kernel up to which the kernel is not stored: products take no longer.
    narrow_up_to: int = 128
    #: Inputs from which features are not stored: a product for each pair of gates is faster.
    wide_from: int = 64
    #: Samples per input up to which XXᵀ is stored; with more, computing it again costs little next to a factor.
    kept_per_input: int = 20
    #: Entries of S, the weights of gates in groups, up to which a dense product is faster than a sparse one.
    dense_share_up_to: int = 2**22
    #: Entries of the matrix that computes contrasts of gates, up to which a dense product is faster than a sparse one.
    dense_turn_up_to: int = 2**10
    #: Gates of a group up to which contrasts replace them: for more, the product costs more than one column saves.
    contrasts_up_to: int = 64
    #: Samples whose margins or adjoint are computed at a time.
    chunk: int = 8192
    #: Samples from which matrices are factorised in single precision, in half the time and memory.
    single_from: int = 1000
    #: Time of a multiplication in the products of a refinement, in units of one in a factor.
    product_cost: float = 6.0
    #: Products that must fit into the time of a whole factor; otherwise no partial factor is used.
    least_products: int = 33
    #: Largest number of columns of a partial factor, as a share of the samples.
    partial_rank: float = 0.125
    #: Columns that a partial factor adds at a time.
    partial_pivots: int = 512
    #: Mean of the remaining scaled diagonal at which a partial factor is accurate enough.
    partial_remainder: float = 0.3
    #: Residual, as a share of the right-hand side, above which refinement changes to conjugate gradients.
    coarse_residual: float = 1e-2
    #: Residual of conjugate gradients, as a share of the right-hand side in the norm of the factor's inverse.
    gradients_residual: float = 1e-3

    # Working sets of samples.
    #: Samples up to which one set holds all.
    all_samples_up_to: int = 1000
    #: Multiplications of a step up to which one set holds all samples with few features: half a second.
    all_products_up_to: float = 5e10
    #: Samples of a first set drawn at random.
    first_samples: int = 500
    #: Largest number of samples of a first set that is the support of an earlier solution or of the screening.
    known_support_up_to: int = 12_000
    #: Share of the largest λ of an earlier solution above which a sample belongs to its support.
    support: float = 1e-5
    #: Samples of each class, nearest to the margin, that a first set after screening always contains.
    nearest: int = 10
    #: Samples up to which a set grows without restriction: steps with fewer take no less time.
    least_samples: int = 250
    #: Largest number of samples that a round adds, as a share of the set.
    growth: float = 0.4
    #: Distance from the margin, as a share of it, within which samples join the violated ones.
    near: float = 0.03
    #: Gaps of the first rounds, each used until one round could add every violated sample.
    round_gaps: tuple[float, ...] = (3e-2, 1e-2, 1e-3)
    #: Gap of the iterate that a round starts from: this share of the gap over all samples, …
    warm_share: float = 0.3
    #: … at least this: iterates nearer to the boundary leave no room for new samples and groups, …
    warm_least: float = 1e-4
    #: … and at most this.
    warm_gap: float = 0.1
    #: Least η of a warm start, as a share of the largest.
    least_eta: float = 1e-6
    #: λ of a new sample, as a share of the mean.
    newcomer: float = 0.01
    #: Multiplications of iterations, per feature of all samples, after which a solve with a limit checks all samples.
    check_after: float = 20.0
    #: Samples of a set from which it uses all BLAS threads: with fewer, threads wait more than they work.
    threads_from: int = 1000

    # Screening by dual coordinate ascent.
    #: Samples of a block, whose kernel is formed.
    block: int = 64
    #: Passes over a block.
    passes: int = 3
    #: Samples whose inputs are fetched at once.
    fetched: int = 2048
    #: Largest number of samples, drawn at random, of the first epoch, which finds the size of η.
    drawn: int = 1000
    #: Power of ‖V_h‖ by which η_h is multiplied, over all blocks of an epoch.
    eta_power: float = 4.0
    #: Largest power for one block.
    eta_block_power: float = 0.5
    #: Largest factor for η_h, before its power: until V has followed η, ‖V_h‖ may be far from 1.
    eta_factor: float = 1.25
    #: The same of units of few inputs in the first epochs, and the number of these.
    first_eta_factor: float = 4.0
    first_epochs: int = 7
    #: Share of the largest η up to which a group of units of few inputs is skipped, and largest ‖V_h‖ of such a group.
    skipped_eta: float = 1e-5
    skipped_norm: float = 0.9
    #: Share of the largest η with which a group with ‖V_h‖ > 1 enters.
    entering_eta: float = 1e-3
    #: Gap that ends a screening if many samples are at their bound.
    screening_gap: float = 1e-2
    #: Gap that ends a screening if few samples are at their bound.
    unbounded_gap: float = 0.3
    #: Largest number of epochs.
    epochs: int = 30
    #: Samples not settled by a screening, from which an epoch takes less time than a step.
    unsettled_from: int = 4000
    #: Largest number of epochs if so many samples remain, or steps use partial factors.
    epochs_unsettled: int = 100
    #: Gap that ends a screening if so many samples remain.
    unsettled_gap: float = 0.1
    #: Epochs from one evaluation of all samples to the next; of units of few inputs after the first epochs.
    cycle: int = 2
    sparse_cycle: int = 6
    #: Visits to samples that a screening may make per multiplication of a step, if one set could hold all samples.
    visits: float = 7e-5
    #: Time of a multiplication for a right-hand side, in units of one for the factor.
    side_cost: int = 50
    #: Gap above which a screening that `visits` ended is no start.
    rough_gap: float = 0.1
    #: Share of the positive λ at their bound from which a screening saves more than it costs.
    bounded: float = 0.25
    #: Share of its bound from which a λ counts as at the bound.
    at_bound: float = 0.99

    # Working sets of groups.
    #: Groups up to which one set holds all.
    all_groups_up_to: int = 500
    #: Groups per sample up to which one set holds all groups.
    groups_per_sample: float = 2.0
    #: Largest number of samples that count for `groups_per_sample` and `first_groups_share`.
    counted_samples: int = 2000
    #: Least number of groups of the first set.
    first_groups: int = 60
    #: Groups of the first set, as a share of the samples.
    first_groups_share: float = 0.25
    #: Largest number of groups that a round adds, as a share of the set; at least half of a first set is allowed.
    group_growth: float = 0.5
    #: Gap of the first round.
    group_gap: float = 0.1
    #: Gap of a later round, as a share of the gap over all groups.
    group_gap_share: float = 0.01
    #: Dual norm, as a share of the largest allowed, below which a group is dropped, once.
    inactive_group: float = 0.8
    #: Largest number of rounds.
    rounds: int = 200
