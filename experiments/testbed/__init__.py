"""A real Envoy, a real Prometheus, emulated replicas and a load generator, as processes."""
