"""The figures of Gram matrices of activations (Panigrahi, Shetty & Goyal): one module each."""

from implicit_bias.experiments.collection import Collection

SOURCE = 'Panigrahi, Shetty & Goyal, "Effect of activation functions on the training of overparametrized neural nets"'
COLLECTION = Collection("gram", SOURCE, ("dimension", "circle", "rank", "antipodal", "depth", "width", "speed"))
