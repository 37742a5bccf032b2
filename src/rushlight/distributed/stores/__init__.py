"""Keys and values that processes share beside a process group: PyTorch's stores.

store = TCPStore("127.0.0.1", 29500, world_size=2, is_master=rank == 0)
store.set("ready", "yes")
"""

from rushlight.distributed.stores.file import FileStore
from rushlight.distributed.stores.store import HashStore, PrefixStore, Store
from rushlight.distributed.stores.tcp import TCPStore

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]
