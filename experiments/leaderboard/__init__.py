"""The frozen comparison: every controller over the suite, under one specification that ships."""
