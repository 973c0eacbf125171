"""The comparisons of Lippl, Abbott & Chung, and their figures."""
