"""Names by which files refer to classes."""

import pytest

from implicit_bias import networks
from implicit_bias.networks import GatedLinearNetwork, GatedNetwork
from implicit_bias.saving.names import class_name, class_names, named_class


def test_every_network_is_found_by_its_name():
    names = class_names(networks, GatedNetwork)
    assert {"GatedLinearNetwork", "ReLUNetwork", "GaLUNetwork of galu"} <= set(names)
    for name in names:
        assert class_name(named_class(name, networks, GatedNetwork), networks) == name


def test_class_of_other_code_has_no_name():
    assert class_name(type("GatedLinearNetwork", (GatedLinearNetwork,), {}), networks) is None


@pytest.mark.parametrize("name", ["Nonsense", "GaLUNetwork", "GaLUNetwork of nowhere", "annotations", "os.system"])
def test_name_of_no_network(name):
    with pytest.raises(KeyError):
        named_class(name, networks, GatedNetwork)
