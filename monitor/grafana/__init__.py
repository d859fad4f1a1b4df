"""Grafana: dashboards as code, and what brings them and the rules to a Grafana."""
