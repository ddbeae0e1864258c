"""How polite a fleet is, measured where it counts: at the server.

`server` notes when each request came and went, `figures` reads rates and pauses from its log, `trial` and `fairness`
run fleets of real workers against it. `python -m bench.run pace` and `fairness` print the figures at full size; the
tests here run them short and compare counts.
"""
