"""Deep chains behind shared gates: their cost, the best found by reweighting, and certified lower bounds."""
