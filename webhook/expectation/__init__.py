"""What a Pod is expected to use: said on it, learned of its workload, or estimated. No I/O here.

`expected` chooses between them; `learning` knows what workloads use, `owners` whose Pods are whose, and
`estimate` goes by what a Pod declares.
"""

from webhook.expectation.expected import EXPECTED, Expectation, Expected

__all__ = ["EXPECTED", "Expectation", "Expected"]
