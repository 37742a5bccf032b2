"""Models of recommenders, by TorchRec's names: `models.dlrm` and `models.deepfm`."""

from rushlight.recsys.models.deepfm import SimpleDeepFMNN
from rushlight.recsys.models.dlrm import DLRM, DLRM_DCN, DLRM_Projection, DLRMTrain
from rushlight.support.peer_names import absent_name

__all__ = ["DLRM", "DLRM_DCN", "DLRMTrain", "DLRM_Projection", "SimpleDeepFMNN"]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
