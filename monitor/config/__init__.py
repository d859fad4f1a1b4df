"""The configuration file: YAML in, settings of the daemon out, every mistake with its line."""
