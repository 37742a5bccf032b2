"""Tier 4, serialisation: what was saved from the device loads there, and anywhere."""

from __future__ import annotations

import copy
import io
import pickle

import rushlight as rl


def _saved(value: object) -> io.BytesIO:
    file = io.BytesIO()
    rl.save(value, file)
    file.seek(0)
    return file


def test_a_checkpoint_keeps_what_shares_memory(device: str) -> None:
    """Strides and offsets too; it is loaded to where it was."""
    base = rl.arange(12.0, device=device)
    views = [base, base[3:], base.view(3, 4).t(), base[1].expand(3), base[5]]
    loaded = rl.load(_saved(views))
    for one, other in zip(loaded, views, strict=True):
        assert one.device == other.device
        assert one.stride() == other.stride()
        assert one.storage_offset() == other.storage_offset()
        assert one.tolist() == other.tolist()
        assert one.untyped_storage() == loaded[0].untyped_storage()


def test_a_checkpoint_loads_anywhere(device: str) -> None:
    """From the device to the CPU and to meta, and from the CPU to the device."""
    assert rl.load(_saved(rl.ones(3, device=device)), map_location="cpu").device.type == "cpu"
    assert rl.load(_saved(rl.ones(3, device=device)), map_location="meta").is_meta
    assert rl.load(_saved(rl.ones(3)), map_location=device).device.type == device


def test_a_network_and_its_optimizer_are_restored(device: str) -> None:
    """And go on as they were."""
    model = rl.nn.Linear(3, 3).to(device)
    optimizer = rl.optim.Adam(model.parameters())
    model(rl.ones(2, 3, device=device)).sum().backward()
    optimizer.step()
    state = rl.load(_saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()}), map_location="cpu")
    other = rl.nn.Linear(3, 3).to(device)
    other.load_state_dict(state["model"])
    again = rl.optim.Adam(other.parameters())
    again.load_state_dict(state["optimizer"])
    for one, two in ((model, optimizer), (other, again)):
        two.zero_grad()
        one(rl.ones(2, 3, device=device)).square().sum().backward()
        two.step()
    assert rl.equal(model.weight.cpu(), other.weight.cpu())
    assert other.weight.device.type == device


def test_pickles_and_deep_copies_stay_on_the_device(device: str) -> None:
    """With their strides."""
    x = rl.arange(6.0, device=device).view(2, 3).t()
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):  # noqa: S301 - our own pickle
        assert other.device == x.device
        assert other.stride() == x.stride()
        assert other.tolist() == x.tolist()
