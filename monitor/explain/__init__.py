"""Why a target has the verdict it has: judged again from what is stored, and laid open."""

from monitor.explain.document import SCHEMA, explain
from monitor.explain.profile import profile

__all__ = ["SCHEMA", "explain", "profile"]
