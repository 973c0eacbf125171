"""Max-margin fits of gated linear features: norms, constraints, problems, formulations and their solvers."""
