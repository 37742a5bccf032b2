"""Errors of jagged data and embedding tables."""

import rushlight as rl
from errorcases import triggers
from rushlight.recsys import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from rushlight.recsys.configs import check_tables
from rushlight.recsys.inference import Batcher, Inputs


@triggers("E001")
def table_without_rows():
    EmbeddingBagConfig(name="user", num_embeddings=0, embedding_dim=8)


@triggers("E002")
def two_tables_of_one_name():
    table = EmbeddingBagConfig(name="user", num_embeddings=10, embedding_dim=8)
    check_tables([table, table])


@triggers("E003")
def lengths_of_other_values():
    KeyedJaggedTensor(["user"], rl.tensor([3, 1, 4]), lengths=rl.tensor([1, 1]))


@triggers("E004")
def negative_length():
    KeyedJaggedTensor(["user"], rl.tensor([3]), lengths=rl.tensor([2, -1]))


@triggers("E005")
def missing_feature():
    KeyedJaggedTensor(["user"], rl.tensor([3]), lengths=rl.tensor([1]))["use"]


@triggers("E006")
def id_beyond_its_table():
    collection = EmbeddingBagCollection([EmbeddingBagConfig(3, 8, "user")])
    collection(KeyedJaggedTensor(["user"], rl.tensor([3]), lengths=rl.tensor([1])))


@triggers("E030")
def request_without_a_list_for_each_example():
    Inputs({"user": 10}, {}).request({"features": {"user": [1, 2]}})


@triggers("E031")
def batcher_that_was_closed():
    batcher = Batcher(lambda request: {})
    batcher.close()
    batcher.submit(Inputs({"user": 10}, {}).request({"features": {"user": [[1]]}}))
