"""The figures of Gram matrices of activations (Panigrahi, Shetty & Goyal): one module each."""
