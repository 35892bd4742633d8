"""Readings from the policy's sources: what each is asked, to which node its answer belongs, who counts.

`poll` asks them; `metricsapi`, `prometheus` and `annotations` are the sources; `answer` is what one says.
"""
