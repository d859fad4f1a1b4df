"""Rules and examples for Prometheus and Alertmanager, made from the daemon's own alert rules."""
