"""What the planner of embedding tables refuses."""

from errorcases import triggers
from rushlight.recsys.configs import EmbeddingBagConfig
from rushlight.recsys.planner import EmbeddingShardingPlanner, ParameterConstraints, Plan, Topology

TABLE = EmbeddingBagConfig(num_embeddings=1000, embedding_dim=16, name="user", feature_names=["id"])


@triggers("E020")
def memory_below_nothing():
    Topology(2, ddr_cap=-1)


@triggers("E021")
def constraints_without_a_way():
    constraints = {"user": ParameterConstraints(sharding_types=["data_parallel"], compute_kernels=["fused"])}
    EmbeddingShardingPlanner(Topology(2), constraints=constraints).plan([TABLE])


@triggers("E022")
def tables_larger_than_all_memory():
    EmbeddingShardingPlanner(Topology(2, ddr_cap=1000)).plan([TABLE])


@triggers("E023")
def plan_with_a_misspelt_name():
    text = EmbeddingShardingPlanner(Topology(2)).plan([TABLE]).text()
    Plan.parse(text.replace("ranks =", "rank ="))


@triggers("E024")
def plan_for_another_model():
    plan = EmbeddingShardingPlanner(Topology(2)).plan([TABLE])
    plan.check([EmbeddingBagConfig(num_embeddings=2000, embedding_dim=16, name="user", feature_names=["id"])])
