"""Parts of the locator, in the sizes with which they are synthesised: two engines of two searches and two lanes."""

from dataclasses import replace
from functools import partial

from hw.islands.adjacency_port import AdjacencyPort
from hw.islands.adjacency_store import AdjacencyStore
from hw.islands.collector import Collector
from hw.islands.column_table import ColumnTable
from hw.islands.config import LocatorConfig
from hw.islands.dispatcher import Dispatcher
from hw.islands.engine import Engine
from hw.islands.examiner import Examiner
from hw.islands.hub_detector import HubDetector
from hw.islands.loader import Loader
from hw.islands.locator import Locator
from hw.islands.looker import Looker
from hw.islands.record_buffer import RecordBuffer
from hw.islands.resolver import Resolver
from hw.islands.row_reader import RowReader
from hw.islands.searcher import Searcher
from hw.islands.state_bank import StateBank
from hw.islands.state_pager import StatePager
from hw.islands.state_store import StateStore
from hw.islands.task_generator import TaskGenerator
from hw.islands.worker import Worker

#: Room for Cora.
CONFIG = LocatorConfig(engines=2, searches=2, lanes=2, nodes=4096, edges=16384, banks=16, line_banks=4)
#: The same with a quarter of the states on the chip.
PAGED = replace(CONFIG, window=1024, page=64)

adjacency_port = partial(AdjacencyPort, CONFIG)
adjacency_store = partial(AdjacencyStore, CONFIG)
collector = partial(Collector, CONFIG)
column_table = partial(ColumnTable, CONFIG)
dispatcher = partial(Dispatcher, CONFIG)
engine = partial(Engine, CONFIG, 0)
examiner = partial(Examiner, CONFIG)
hub_detector = partial(HubDetector, CONFIG)
loader = partial(Loader, CONFIG)
locator = partial(Locator, CONFIG)
looker = partial(Looker, CONFIG)
record_buffer = partial(RecordBuffer, CONFIG)
resolver = partial(Resolver, CONFIG)
row_reader = partial(RowReader, CONFIG)
searcher = partial(Searcher, CONFIG)
paged_state_store = partial(StateStore, PAGED)
state_bank = partial(StateBank, CONFIG)
state_pager = partial(StatePager, PAGED, CONFIG.engines * CONFIG.lanes + 2)
state_store = partial(StateStore, CONFIG)
task_generator = partial(TaskGenerator, CONFIG)
worker = partial(Worker, CONFIG)
