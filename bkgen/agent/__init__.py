"""The only caller of the `buildkite-agent` program: find it, upload, annotate, keep meta-data.

agent = Agent.find(os.environ)
with terminate_as_interrupt():
    delivered = deliver(agent, batches, selection="unit", report=say)
"""

from bkgen.agent.child import Interrupted, terminate_as_interrupt
from bkgen.agent.delivery import Batch, Delivered, deliver
from bkgen.agent.outcome import OLDEST_SUPPORTED, UploadRefusedError
from bkgen.agent.process import Agent

__all__ = [
    "OLDEST_SUPPORTED",
    "Agent",
    "Batch",
    "Delivered",
    "Interrupted",
    "UploadRefusedError",
    "deliver",
    "terminate_as_interrupt",
]
