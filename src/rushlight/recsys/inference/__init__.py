"""Serving tables and models: predict modules, batches of many callers' requests, HTTP.

predict = PredictModule.of_tables(open_tables("tables.safetensors"))
with running(Service(predict)) as address:
    print(address)
"""

from rushlight.recsys.inference.batching import Batcher
from rushlight.recsys.inference.predict import BatchingMetadata, PredictModule, quantize_inference_model
from rushlight.recsys.inference.requests import Inputs, Ragged, Request
from rushlight.recsys.inference.server import listening, run, running
from rushlight.recsys.inference.service import Limits, Service
from rushlight.support.peer_names import absent_name

__all__ = [
    "Batcher",
    "BatchingMetadata",
    "Inputs",
    "Limits",
    "PredictModule",
    "Ragged",
    "Request",
    "Service",
    "listening",
    "quantize_inference_model",
    "run",
    "running",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
