"""Best two-layer ReLU network: its convex problem, the dual norm that certifies it, and column generation."""
