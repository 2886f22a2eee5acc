"""Results of runs: as a user reads them from `result.json`, and made without a run."""

import json
from dataclasses import fields, is_dataclass, replace
from typing import Any

import fastjsonschema

from hw.chiplet.config import GatherChipletConfig
from scripts.flows import schema
from scripts.flows.run import Request
from scripts.flows.run import run as flow
from scripts.flows.typed_json import plain, schema_of

__all__ = ["made", "run", "validate"]

#: Raises an exception if its argument is not as in the schema of `result.json`.
validate = fastjsonschema.compile(schema_of(schema.Result))


def run(request: Request) -> dict[str, Any]:
    """Carry out a request, and return the contents of its `result.json`."""
    result = flow(request)
    read: dict[str, Any] = json.loads((request.out / "result.json").read_text())
    assert read == plain(result)
    validate(read)
    return read


def made(**changed: Any) -> schema.Result:
    """Return the result of a run on a ring of two, with changed keys; a dictionary changes keys of an object."""
    return _changed(_RESULT, changed)


def _changed(value: Any, keys: dict[str, Any]) -> Any:
    assert set(keys) <= {entry.name for entry in fields(value)}
    new = {}
    for name, inside in keys.items():
        old = getattr(value, name)
        new[name] = _changed(old, inside) if is_dataclass(old) and isinstance(inside, dict) else inside
    return replace(value, **new)


_RESULT = schema.Result(
    schema=1,
    dataset=schema.Dataset(name="karate", nodes=34, graphs=0, edges=156, features=34, classes=2),
    model=schema.Model(name="gcn", layers=[[34, 16], [16, 2]], activation="relu", file=None),
    config=schema.Config("default", 2, GatherChipletConfig(), 128, None, None),
    bit_exact=True,
    differences=[],
    cycles=4000,
    cycles_by_phase={"start": 90, "layer0.combine": 1000, "between": 90, "layer1.aggregate": 2820},
    balance=[schema.Balance("PE", 4, busiest=330, mean=300, imbalance=1.1)],
    macs=schema.Macs(useful=5000, lanes=64, limit_cycles=1000, utilisation=0.02),
    external_bytes=schema.ExternalBytes(read=9000, written=1000, compulsory=5000, limit_cycles=900),
    ring=schema.RingTraffic("tiles", 1.0, 0.5, words_by_link=[7, 8], minimum=[7, 8], unicast=30, broadcast=20),
    communities=None,
    aggregation=schema.Aggregation(scheme="pairs", baseline=100, gross=70, net=80),
    attribute_cache=schema.AttributeCache(
        requests=40, misses=10, in_place=5, cached=5, moved=20, missed=10, slots=8, ways=2, policy="lru", sub_batches=5
    ),
    batch=schema.Batch(
        size=4,
        fan_out=[3, 2],
        negatives=2,
        order="ID",
        batches=[1, 1],
        positions=40,
        bit_exact=True,
        cycles=schema.BatchCycles(total=700, sample=300, layers=400),
        external_bytes=schema.Moved(read=10, written=20),
        accuracy=schema.SampledAccuracy(float=0.9, machine=0.9),
        links=schema.Links(
            positive=8,
            negative=16,
            ends=schema.Ends(
                nodes=9,
                batches=[2, 1],
                positions=50,
                cycles=schema.BatchCycles(total=900, sample=300, layers=600),
                external_bytes=schema.Moved(read=10, written=20),
            ),
            machine=schema.Ranking(auc=0.8, mrr=0.7, hits1=0.5, hits3=1.0),
            float=schema.Ranking(auc=0.9, mrr=0.7, hits1=0.5, hits3=1.0),
            features=schema.Ranking(auc=0.6, mrr=0.5, hits1=0.25, hits3=0.75),
        ),
    ),
    session=None,
    head=schema.Head(
        epochs=1,
        features=16,
        hidden=[],
        classes=2,
        shift=15,
        rate=0.5,
        vertices=schema.Vertices(learnt=20, scored=34),
        chiplet=0,
        cycles=None,
        bit_exact=None,
        accuracy=schema.HeadAccuracy(machine=0.8, network=0.9, float=0.8),
    ),
    accuracy=schema.Accuracy(float=0.9, machine=0.9, agreement=1.0, losses=None),
    simulation=schema.Simulation(wall_seconds=1.0, cycles_per_second=4000.0),
    tools={"python": "3", "numpy": "2"},
    seed=0,
    commit=None,
)
