"""The contract: what is measured, what is set, and how a policy sees and says it.

The simulator and the live bridge are two producers of one `MetricsSnapshot` and two consumers of
one `GatewaySettings`. This folder imports numpy and nothing else.
"""
