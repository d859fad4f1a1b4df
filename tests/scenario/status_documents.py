"""Documents of targets as the status page gets them."""

from __future__ import annotations

NOW = 1_800_000_000.0
HARMFUL = {
    "verdict": "harmful",
    "sentence": "speculation costs 34 % of decode speed",
    "action": "roll_back",
    "speedup": {"value": 0.662, "low": 0.597, "high": 0.726},
    "acceptance_rate": {"value": 0.156, "low": 0.099, "high": 0.237},
    "acceptance_length": {"value": 1.778, "low": None, "high": None},
    "break_even": {"acceptance_length": 2.687, "acceptance_rate": 0.3374},
    "load": {"running": 3.4},
}
