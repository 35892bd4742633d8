"""Readings from the policy's sources: what each is asked, to which node its answer belongs, who counts.

`poll` asks them; `metricsapi`, `prometheus` and `annotations` are the sources; `answer` is what one says and
`mapping` to which node it belongs. `readings` keeps what each last told, by `lateness` how late, and decides
whose reading counts: both are of the core. `podmetrics` asks what Pods use, to learn from. `command` is
`trimtab usage`.
"""
