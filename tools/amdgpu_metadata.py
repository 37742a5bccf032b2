"""What an object for AMD's GPUs says of its kernels: the note of the ABI `amdhsa`, in MessagePack."""

import struct
from typing import Any

from rushlight.runtime.elf import ElfObject

_NOTE = 32  # NT_AMDGPU_METADATA
_FIXED = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_TEXTS = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
_LISTS = {0xDC: ">H", 0xDD: ">I"}
_TABLES = {0xDE: ">H", 0xDF: ">I"}


def kernels_of(code: bytes) -> dict[str, dict[str, Any]]:
    """The metadata of each kernel, by its name."""
    elf = ElfObject(code)
    (section,) = [section for section in elf.sections if section.name == ".note"]
    data = elf.contents(section)
    name, size, kind = struct.unpack_from("<III", data)
    assert kind == _NOTE
    assert data[12 : 12 + name] == b"AMDGPU\0"
    start = 12 + (name + 3) // 4 * 4
    return {kernel[".name"]: kernel for kernel in Reader(data[start : start + size]).value()["amdhsa.kernels"]}


class Reader:
    """Reads MessagePack, but for floats and extensions."""

    def __init__(self, data: bytes) -> None:
        """`data` is one value."""
        self.data = data
        self.at = 0

    def number(self, form: str) -> int:
        """The next number, as `struct` has it."""
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self, size: int) -> str:
        """The next text, of so many bytes."""
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def value(self) -> Any:
        """The next value."""
        first = self.number(">B")
        if first < 0x80 or first >= 0xE0:
            return first if first < 0x80 else first - 0x100
        if first in _FIXED:
            return _FIXED[first]
        if first in _NUMBERS:
            return self.number(_NUMBERS[first])
        if 0xA0 <= first < 0xC0 or first in _TEXTS:
            return self.text(first & 0x1F if first < 0xC0 else self.number(_TEXTS[first]))
        if 0x90 <= first < 0xA0 or first in _LISTS:
            return [self.value() for _ in range(first & 0xF if first < 0xA0 else self.number(_LISTS[first]))]
        assert 0x80 <= first < 0x90 or first in _TABLES
        count = first & 0xF if first < 0x90 else self.number(_TABLES[first])
        return {self.value(): self.value() for _ in range(count)}
