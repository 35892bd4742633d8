"""`trimtab explain`: why the nodes rank as they do for a Pod.

`explanation` gathers what was known of every node, with the words of `refusals`; `podfile` reads the Pod,
`table` prints, and `command` is the shell around them.
"""
