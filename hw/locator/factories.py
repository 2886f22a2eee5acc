"""Parts of the locator in the sizes used for synthesis: two engines of two searches and two lanes."""

from dataclasses import replace
from functools import partial

from hw.locator.adjacency_store import AdjacencyStore
from hw.locator.collector import Collector
from hw.locator.column_table import ColumnTable
from hw.locator.config import LocatorConfig
from hw.locator.degree_lists import DegreeLists
from hw.locator.dispatcher import Dispatcher
from hw.locator.engine import Engine
from hw.locator.hub_detector import HubDetector
from hw.locator.loader import Loader
from hw.locator.locator import Locator
from hw.locator.neighbour_classifier import NeighbourClassifier
from hw.locator.record_buffer import RecordBuffer
from hw.locator.resolver import Resolver
from hw.locator.row_reader import RowReader
from hw.locator.searcher import Searcher
from hw.locator.single_reader import SingleReader
from hw.locator.state_bank import StateBank
from hw.locator.state_lookup import StateLookup
from hw.locator.state_pager import StatePager
from hw.locator.state_store import StateStore
from hw.locator.sweeper import Sweeper
from hw.locator.task_generator import TaskGenerator

#: Room for Cora.
CONFIG = LocatorConfig(
    engines=2,
    searches=2,
    lanes=2,
    nodes=4096,
    edges=16384,
    banks=4,
    load_words=4,
)
#: The same with a quarter of the states on the chip.
PAGED = replace(CONFIG, window=1024, page=64)

#: An engine with as many searches as in chiplets.
ENGINE = replace(CONFIG, searches=4)

adjacency_store = partial(AdjacencyStore, CONFIG)
collector = partial(Collector, CONFIG, 2)
column_table = partial(ColumnTable, CONFIG)
degree_lists = partial(DegreeLists, CONFIG)
dispatcher = partial(Dispatcher, CONFIG)
engine = partial(Engine, ENGINE)
neighbour_classifier = partial(NeighbourClassifier, CONFIG)
hub_detector = partial(HubDetector, CONFIG)
loader = partial(Loader, CONFIG)
locator = partial(Locator, CONFIG)
state_lookup = partial(StateLookup, CONFIG)
record_buffer = partial(RecordBuffer, CONFIG)
resolver = partial(Resolver, CONFIG)
row_reader = partial(RowReader, CONFIG)
searcher = partial(Searcher, CONFIG)
single_reader = partial(SingleReader, CONFIG)
state_bank = partial(StateBank, CONFIG)
state_pager = partial(StatePager, PAGED, CONFIG.engines * CONFIG.lanes + CONFIG.banks + 1)
state_store = partial(StateStore, CONFIG)
sweeper = partial(Sweeper, CONFIG)
task_generator = partial(TaskGenerator, CONFIG)
