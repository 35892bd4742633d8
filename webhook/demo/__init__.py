"""`trimtab demo`: what steering does for balance, shown with the real server and a generated workload.

`workload` generates the cluster and its Pods, `stock` is a model of the stock kube-scheduler, by its
`stockscores`, `replay` places the Pods in three ways and `report` tells of it; none does any I/O but
`report`, which prints. `server` is the process that is asked, `command` puts it all together.
"""
