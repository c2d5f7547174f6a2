"""Controllers to compare with, one a file; its docstring gives formula, regimes and source."""
