"""Optimizers and learning rate schedules."""

from rushlight.optim import lr_scheduler
from rushlight.optim.adagrad import Adagrad
from rushlight.optim.adam import Adam, AdamW
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.rmsprop import RMSprop
from rushlight.optim.sgd import SGD
from rushlight.support.peer_names import absent_name

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
