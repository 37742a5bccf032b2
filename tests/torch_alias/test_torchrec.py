"""`import torchrec` under the alias is `rushlight.recsys`, for programs that were written for TorchRec."""

import subprocess
import sys
import textwrap

PROGRAM = """
import torch
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.modules.fp_embedding_modules import FeatureProcessedEmbeddingBagCollection
from torchrec.modules.feature_processor_ import PositionWeightedModuleCollection
from torchrec.sparse.jagged_tensor import JaggedTensor
import torchrec.modules.mc_modules
import torchrec

tables = [EmbeddingBagConfig(name="t", num_embeddings=9, embedding_dim=4, feature_names=["f"])]
ids = KeyedJaggedTensor.from_lengths_sync(["f"], torch.tensor([1, 2, 3]), torch.tensor([1, 2]))
model = FeatureProcessedEmbeddingBagCollection(
    EmbeddingBagCollection(tables, is_weighted=True), PositionWeightedModuleCollection({"f": 2})
)
print(model(ids)["f"].shape, torchrec.modules.mc_modules.LFU_EvictionPolicy.__name__)
print(len(EmbeddingShardingPlanner(Topology(2, "cpu")).plan(model).options))
from torchrec.datasets.random import RandomRecDataset
from torchrec.models.dlrm import DLRM, DLRMTrain
from torchrec.modules.crossnet import LowRankCrossNet
from torchrec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper
from torchrec.distributed.model_parallel import get_default_sharders
from torchrec.distributed.planner.types import ParameterConstraints, ShardingPlan
from fbgemm_gpu.split_embedding_configs import EmbOptimType
print(DLRM.__module__, len(get_default_sharders()))
try:
    import torchrec.datasets.scripts
except ModuleNotFoundError as missing:
    print(missing.name)
"""


def test_torchrec_is_rushlights():
    code = "import rushlight.torch; rushlight.torch.install()\n" + textwrap.dedent(PROGRAM)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "rushlight.Size([2, 4]) LFU_EvictionPolicy",
        "1",
        "rushlight.recsys.models.dlrm 7",
        "torchrec.datasets.scripts",
    ]
    assert "torchrec.datasets.scripts" in done.stderr
