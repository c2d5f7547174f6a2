"""The engine: replicas, gateway and telemetry at request level, compiled with Numba.

It knows no gymnasium and no reward. Parameters are frozen (`params.py`), everything that changes
is in one state object (`state.py`), and the kernels of the other files work on its arrays.
"""
