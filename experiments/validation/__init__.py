"""What shows that the simulator is right: each section compares it with something outside it.

A further section takes two things: a module `NAME.py` here with `run(context: ValidationContext) ->
Section`, and in `sections.py` the line `"NAME": "what it compares the simulator with",`. The
command, the page and the documentation take it from there. The module is loaded only when it is
asked for.

A section whose data are not here returns `skipped_section(...)` with the reason: it never passes
silently.
"""
