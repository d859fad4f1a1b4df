"""The kinds of things that a Grafana keeps for us, one file each."""
