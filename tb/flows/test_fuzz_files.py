"""Whatever stands in a file or a name that users write: it is taken, or refused in one line, without a warning.

Inputs are drawn by seed; pytest makes errors of warnings. A failure names the seed.
"""

import importlib.util
import json
import pickle
import struct
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from contracts import HEADER, LINE_BYTES, Model
from contracts.dnp.config import ProcessorConfig
from contracts.errors import InputError
from golden.attributes.sampler import Plan
from golden.datasets import load
from golden.dnp.array import DeadlockError
from golden.image import build_image
from golden.image_format import Image
from golden.importing.importer import import_model
from golden.model.quantise import quantise
from golden.model.training import Training, train
from golden.model.weights import KINDS, read_weights, write_weights
from scripts.blocks import UserError
from scripts.cli import main
from scripts.config import CONFIGS, load_array, load_machine
from scripts.dnp import programs
from scripts.flows.batch import parse_fan_out
from sim.problems import random_problem
from tb.dnp.programs import random_program
from tb.flows.strange import ARRAYS, NUMBERS, Rng, changed, damaged, renumbered
from tb.importing.state_dicts import batch_norm, gat, gcn, gin, linear, sage, saved

SEEDS = 50
#: PyTorch, where it is installed.
TORCH: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
KARATE = load("karate")


def archive(rng: Rng, folder: Path, arrays: dict[str, Any]) -> Path:
    np.savez(folder / "f.npz", **changed(rng, arrays))
    if rng.random() < 0.4:
        (folder / "f.npz").write_bytes(damaged(rng, (folder / "f.npz").read_bytes()))
    return folder / "f.npz"


def graph_archive(rng: Rng, folder: Path) -> None:
    nodes, ends = 12, rng.integers(12, size=(2, 30))
    arrays: dict[str, Any] = {"edge_index": ends, "x": rng.standard_normal((nodes, 5)), "y": np.arange(nodes) % 3}
    if rng.random() < 0.3:
        arrays["train_mask"] = rng.random(nodes) < 0.5
    if rng.random() < 0.5:
        arrays["edge_weight"] = rng.standard_normal(30)
    graph = load(f"npz:{archive(rng, folder, arrays)}")
    quantise(train(graph, Model.GCN, Training(epochs=2)), graph)


def batch_archive(rng: Rng, folder: Path) -> None:
    graphs, size = 4, 3
    batch = np.repeat(np.arange(graphs), size)
    ends = rng.integers(size, size=(2, 20)) + size * rng.integers(graphs, size=20)
    arrays: dict[str, Any] = {"edge_index": ends, "x": rng.standard_normal((batch.size, 5)), "batch": batch}
    arrays |= {"y": np.arange(graphs) % 2, "edge_weight": rng.standard_normal(20)}
    if rng.random() < 0.3:
        arrays["test_mask"] = rng.random(graphs) < 0.5
    graph = load(f"npz:{archive(rng, folder, arrays)}")
    graph.relabelled(rng.permutation(graph.nodes))


def weight_archive(rng: Rng, folder: Path) -> None:
    model, widths = Model(rng.choice(list(Model))), (34, 34, 8, 2)
    arrays: dict[str, Any] = {"model": np.array(model.name.lower()), "activation": np.array("relu")}
    for number in range(3):
        arrays[f"layer{number}.weight"] = rng.standard_normal(widths[number : number + 2])
        arrays[f"layer{number}.bias"] = rng.standard_normal(widths[number + 1])
    if model == Model.GIN:
        arrays["eps"] = np.array(0.1)
    if rng.random() < 0.5:
        arrays |= {"layer1.kind": np.array(rng.choice(list(KINDS))), "layer1.activation": np.array("none")}
    if rng.random() < 0.3:
        arrays |= {"layer1.kind": np.array("gat"), "layer1.heads": np.array([1, 6]), "layer1.slope": np.array(0.2)}
    network = read_weights(str(archive(rng, folder, arrays)), None, KARATE)
    quantise(network, KARATE)
    network.forward(KARATE)


def state_dict(rng: Rng, folder: Path) -> None:
    """Read a state dict of any kind of layer, where PyTorch is installed half of the time from its own format."""
    arrays: dict[str, Any] = {}
    for make, *widths in (
        ((gcn, 34, 4), (gcn, 4, 2)),
        ((gat, 34, 2, 2), (sage, 4, 2)),
        ((gin, 34, 4, 4), (gcn, 4, 2)),
        ((gcn, 34, 4), (linear, 4, 2)),
    )[rng.integers(4)]:
        arrays |= make(f"conv{len(arrays)}", *widths)
    if rng.random() < 0.5:
        arrays |= batch_norm("bn0", 4)
    if rng.random() < 0.7:
        arrays = changed(rng, arrays)
    kinds = "?bhiqBHIQefd"
    kept = {name: np.array(array) for name, array in arrays.items() if array.dtype.char in kinds}
    path = Path(saved(folder, kept))
    if rng.random() < 0.5 and TORCH is not None:
        path = folder / "net.pt"
        TORCH.save({name: TORCH.from_numpy(array) for name, array in kept.items()}, path)
    if rng.random() < 0.4:
        path.write_bytes(damaged(rng, path.read_bytes()))
    network = import_model(str(path)).converted().network
    quantise(network, KARATE)
    write_weights(folder / "net.npz", network)
    read_weights(str(folder / "net.npz"), None, KARATE)


def configuration(rng: Rng, folder: Path) -> None:
    files = sorted(CONFIGS.glob("*.toml"))
    text = files[rng.integers(len(files))].read_text()
    data = renumbered(rng, text).encode() if rng.random() < 0.5 else damaged(rng, text.encode())
    (folder / "c.toml").write_bytes(data)
    (load_array if "[array]" in text else load_machine)(str(folder / "c.toml"))


def planetoid(rng: Rng, folder: Path) -> None:
    parts: dict[str, Any] = {
        "x": sparse.csr_matrix([[1.0, 1.0, 0.0]]),
        "allx": sparse.csr_matrix([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0]]),
        "tx": sparse.csr_matrix([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]),
        "y": np.array([[1, 0]]),
        "ally": np.array([[1, 0], [0, 1], [0, 0]]),
        "ty": np.array([[0, 1], [1, 0]]),
        "graph": defaultdict(list, {0: [1, 1, 0], 1: [0], 2: [5], 3: [], 5: [2]}),
        "test.index": b"5\n3\n",
    }
    loop: list[Any] = []
    loop.append(loop)
    bomb: Any = [1]
    for _ in range(40):
        bomb = [bomb, bomb]
    victim = str(rng.choice(list(parts)))
    if rng.random() < 0.4:
        part = parts[victim]
        if sparse.issparse(part):
            name = ("data", "indices", "indptr")[rng.integers(3)]
            with np.errstate(all="ignore"):
                setattr(part, name, ARRAYS[rng.integers(6, len(ARRAYS))](getattr(part, name).astype(float)))
        else:
            others: list[Any] = [loop, bomb, {0: loop}, {0: bomb[0]}, {0: [1.5]}, {None: [1]}, {0: [1 << 70]}, 3, None]
            parts[victim] = others[rng.integers(len(others))]
    for name, value in parts.items():
        data = value if isinstance(value, bytes) else pickle.dumps(value, protocol=int(rng.integers(2, 5)))
        if name == victim and rng.random() < 0.7:
            data = damaged(rng, data)
        (folder / f"ind.toy.{name}").write_bytes(data)
    load(f"planetoid:{folder}/toy")


def assembly(rng: Rng, folder: Path) -> None:
    text = random_program(int(rng.integers(1000)), blocks=2).replace("#", "= #" if rng.random() < 0.1 else "#")
    if rng.random() < 0.4:
        words = text.split(" ")
        for place in rng.integers(len(words), size=3):
            words[place] = (*NUMBERS, "WM[" + "9" * 5000 + "]", "REP", ":", ".org", ".equ", "#0x" + "f" * 9000)[
                rng.integers(len(NUMBERS) + 6)
            ]
        text = " ".join(words)
    else:
        text = damaged(rng, text.encode()).decode("latin1" if rng.random() < 0.5 else "utf-8", "surrogateescape")
    (folder / "p.asm").write_bytes(text.encode("utf-8", "surrogateescape"))
    image = programs.load(folder / "p.asm", ProcessorConfig())
    programs.listing(image.program)
    execute(image)


def dump(rng: Rng, folder: Path) -> None:
    data: dict[str, Any] = {"program": rng.integers(1 << 16, size=9).tolist(), "wm": {"3": 5}, "xm": {}}
    strange = [None, -1, 1 << 40, 1.5, float("nan"), "7", [], {}, True, [[1]], {"x": 1}, {"-1": 1}, {"9" * 5000: 1}]
    if rng.random() < 0.5:
        name = str(rng.choice(list(data)))
        data[name] = strange[rng.integers(len(strange))]
        if rng.random() < 0.5:
            data[name] = [data[name]]
    text = json.dumps(data).encode()
    (folder / "p.json").write_bytes(damaged(rng, text) if rng.random() < 0.5 else text)
    image = programs.load(folder / "p.json", ProcessorConfig())
    programs.listing(image.program)
    execute(image)


def execute(image: Any) -> None:
    with suppress(DeadlockError, TimeoutError):
        programs.run_golden(programs.prepared(image, {"W": [1, 2]}, ProcessorConfig()), 100)


def memory_image(rng: Rng, folder: Path) -> None:
    data = bytearray(IMAGE)
    if rng.random() < 0.5:
        # A header and tables that are damaged under a checksum that is right.
        for _ in range(rng.integers(1, 4)):
            at = 4 * int(rng.integers(2, 40))
            struct.pack_into("<I", data, at, int(rng.choice([0, 1, 7, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF])))
        header = HEADER.from_bytes(bytes(data)) | {"checksum": zlib.crc32(data[LINE_BYTES:])}
        image = Image.from_bytes(HEADER.to_bytes(header) + bytes(data[LINE_BYTES:]))
    else:
        image = Image.from_bytes(damaged(rng, bytes(data)))
    for region in image.regions:
        if region.row_bytes % 2 == 0:
            image.rows(region, image.data[region.address :])


IMAGE = build_image(random_problem(KARATE, Model.GCN, (34, 8, 2), 1)).data


def name_of_a_graph(rng: Rng, folder: Path) -> None:
    kinds = (
        "power-law",
        "configuration",
        "community",
        "erdos",
        "grid",
        "path",
        "star",
        "clique",
        "empty",
        "molecules",
        "",
        "digits",
    )
    keys = ("nodes", "degree", "features", "classes", "density", "seed", "mixing", "exponent", "graphs", "x", "")
    values = (*NUMBERS, "1", "2", "7", "20", "0.5", "1e-9", "70000", "")
    settings = [
        f"{keys[rng.integers(len(keys))]}{'=' if rng.random() < 0.9 else ''}{values[rng.integers(len(values))]}"
        for _ in range(rng.integers(4))
    ]
    kind = kinds[rng.integers(len(kinds))]
    load(
        ",".join(
            [f"synthetic:{kind}", *(["graphs=9"] if kind == "molecules" else ["nodes=9"]), *settings][
                : rng.integers(1, 7)
            ]
        )
    )


def fan_out(rng: Rng, folder: Path) -> None:
    values = (*NUMBERS, "1", "10", "255", "256", "", " ")
    text = ",".join(values[place] for place in rng.integers(len(values), size=rng.integers(1, 7)))
    Plan(parse_fan_out(text))
    Plan(parse_fan_out("10,10"))


def port_words(rng: Rng, folder: Path) -> None:
    values = (*NUMBERS, "1", "-32768", "65536", "", " ")
    ports = ("W", "w", "X", "", "W=N", "\0")
    words = ",".join(values[place] for place in rng.integers(len(values), size=3))
    programs.parse_inputs([f"{ports[rng.integers(len(ports))]}={words}"])


READERS = (
    graph_archive, batch_archive, weight_archive, state_dict, configuration, planetoid, assembly, dump, memory_image,
    name_of_a_graph, fan_out, port_words,
)  # fmt: skip


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_strange_input_is_taken_or_refused_in_one_line(reader: Callable[[Rng, Path], None], tmp_path: Path) -> None:
    refused = 0
    for seed in range(SEEDS):
        said = ""
        try:
            reader(np.random.default_rng(seed), tmp_path)
        except (InputError, UserError) as error:
            refused, said = refused + 1, str(error)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        # The assembler has a line for each complaint.
        lines = said.split("\n")
        assert len(lines) <= (21 if reader is assembly else 1), f"seed {seed}: {said}"
        assert all(line.isprintable() and len(line) < 5000 for line in lines), f"seed {seed}: {said!r}"
    assert refused > SEEDS // 4


@pytest.mark.parametrize(
    "words",
    [
        "run npz:{f}/bad.npz --no-rtl",
        "run karate --no-rtl --model-file {f}/bad.npz",
        "run karate --no-rtl --model-file {f}/bad.safetensors",
        "run karate --no-rtl --model-file {f}/bad.pt",
        "import {f}/bad.safetensors",
        "import {f}/bad.npz",
        "import {f}/missing.safetensors",
        "run karate --no-rtl --config {f}/bad.toml",
        "run karate --no-rtl --config smal",
        "run planetoid:{f}/cora --no-rtl",
        "run synthetic:grid,nodes=nan --no-rtl",
        "run karate --no-rtl --batch 2 --fanout 1,x",
        "islands kartae",
        "generate locator.state_stor",
        "synth machin",
        "formal strem",
        "bench rign",
        "asm {f}/bad.toml",
        "disasm {f}/bad.json",
        "dnp run {f}/missing.asm",
        "dnp run {f}/ok.asm --in Q=1",
        "dnp train {f}/bad.npz",
        "dnp train digts",
        "dnp train iris --model-file {f}/missing.npz",
        "dnp infer iris --model-file {f}/bad.npz",
        "dnp infer iris --model-file {f}/bad.pt",
        "dnp infer iris --model-file {f}/bad.joblib",
        "dnp map {f}/missing.joblib",
        "dnp map 64-32-x",
        "dnp map 64-32-10 --side 1",
    ],
)
def test_the_program_ends_in_one_line_and_status_2(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.npz").write_bytes(b"PK\3\4" + bytes(range(256)))
    (tmp_path / "bad.safetensors").write_bytes(b"\x09\0\0\0\0\0\0\0{" + b"[" * 99)
    (tmp_path / "bad.pt").write_bytes(b"PK\3\4" + bytes(range(256)))
    (tmp_path / "bad.joblib").write_bytes(b"\x80\4" + bytes(range(256)))
    (tmp_path / "bad.toml").write_bytes(b"a = " + b"[" * 9999)
    (tmp_path / "bad.json").write_bytes(b"[" * 99999)
    (tmp_path / "ok.asm").write_text("HALT")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["atoll", *words.format(f=tmp_path).split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.err.startswith("atoll: ")
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.out + said.err
