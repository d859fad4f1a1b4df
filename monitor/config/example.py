"""The file that ``monitor config init`` writes."""

EXAMPLE = """\
# Configuration of specdec-monitor; docs/configuration.md explains every key.
# 'monitor config check' lists all mistakes, 'monitor config show' the values in effect.

# SQLite, or postgresql://user@host/name. A URL with a password does not belong here: put it
# into a file or an environment variable and name that with database_file or database_env.
database: sqlite:///monitor.db

# Address of the API and the metrics. Anything but this machine needs a token.
listen: 127.0.0.1:9465
# token_file: /run/secrets/monitor-token

scrape:
  interval: 15s
  timeout: 10s

# Spans that are shown, and those that are judged: the shortest one that allows it decides.
windows: [1m, 5m, 15m, 1h, 6h, 24h]
judged_windows: [1m, 5m, 15m]

# Acceptance rate below which speculation counts as degraded unless a gain is proven.
threshold: 0.40
# Speedups within 1 plus or minus this count as neutral.
dead_band: 0.05

services:
  - name: my-model
    # threshold: 0.35
    # auth:
    #   bearer_file: /run/secrets/model-token
    # tls:
    #   ca_file: /etc/ssl/our-ca.pem
    speculative:
      targets:
        - http://localhost:8000
        # - url: http://gpu2:8000
        #   name: gpu2
        #   labels: {zone: a}
        #   num_speculative_tokens: 3   # only where the page cannot tell
    # What the model does without speculation: a measured curve, plain servers, or both.
    # baseline:
    #   curve: my-model-baseline.json
    #   targets: [http://plain:8000]
    # Whether traffic may move to the plain servers; docs/rollback.md has all keys.
    # rollback:
    #   mode: propose              # observe: only say so; act: without asking
    #   quiet_hours: [mon-fri 22:00-06:00 Europe/Berlin]
    #   actuator:
    #     haproxy:
    #       socket: /run/haproxy/admin.sock
    #       backend: my-model
    #       speculative: [gpu1]
    #       baseline: [plain1]
"""
