"""Trimtab: a mutating admission webhook that steers Pod placement.

A Pod's way through the package, in reading order::

    server      HTTP in and out; the deadline; the log line
    admission   one review to one answer: guard, decide, the barrier that never refuses
    review      the AdmissionReview on the wire
    kube        Kubernetes JSON to the few fields that placement needs
    expectation what the Pod is expected to use: learned, said on it, or estimated
    filters     which nodes could take the Pod
    scorers     how good each of them is, 0 to 100
    planner     which of them to name, in tiers of falling weight
    batch       the same at once for the Pods of one owner
    patch       the JSON Patch operations, and the check that they apply
    decision    the audit annotation
    ledger      load that is admitted or bound but not yet visible in readings

`explain` shows what was known of every node in an answer.

What they read is `snapshot`, kept by `watch` and `usage` from a cluster, or by `clusterfile` from a file.
`policy` says how. `app` wires it, `cli` is the command line. The import contracts in pyproject.toml hold the
layers: from `admission` down nothing does I/O, awaits or reads a clock.
"""

__version__ = "0.1.0"
