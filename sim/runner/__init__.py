"""Jobs on a simulated machine: one chiplet or a ring of them, with gather or community PEs.

Outside the simulator, `sim.runner.run` builds the machine (`build`, `top`), hands jobs over and returns their outcomes.
Inside, `sim.runner.machine` drives a `Host` for each chiplet; each job (`jobs`, `batches`) does its steps there.
"""
