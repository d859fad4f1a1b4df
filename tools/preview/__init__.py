"""Pictures of the dashboards."""
