"""The figures of Gram matrices of activations (Panigrahi, Shetty & Goyal): one module each."""

from implicit_bias.studies.collection import Collection

SOURCE = 'Panigrahi, Shetty & Goyal, "Effect of activation functions on the training of overparametrized neural nets"'
NAMES = ("dimension", "separation", "circle", "rank", "antipodal", "depth", "centred", "width", "speed", "lazy")
COLLECTION = Collection("gram", SOURCE, NAMES)
