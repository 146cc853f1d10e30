"""Models by their energy: p(x) = exp(-E(x)) / Z."""

from seqloom.models.energy.boltzmann import BoltzmannMachine, anneal, max_cut
from seqloom.models.energy.dbn import DeepBeliefNetwork, DeepClassifier, layer_machine
from seqloom.models.energy.rbm import RestrictedBoltzmannMachine, build_rbm
from seqloom.models.energy.units import BernoulliUnits, GaussianPixels, GaussianUnits, LabelledUnits

__all__ = [
    "BernoulliUnits",
    "BoltzmannMachine",
    "DeepBeliefNetwork",
    "DeepClassifier",
    "GaussianPixels",
    "GaussianUnits",
    "LabelledUnits",
    "RestrictedBoltzmannMachine",
    "anneal",
    "build_rbm",
    "layer_machine",
    "max_cut",
]
