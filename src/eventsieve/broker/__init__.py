"""The embedded broker: receive, match, send, and give way under load within a stated bound.

EEM's broker (section 4.1) as a library: one process, a bounded queue between every two parts, no Spark. `transport`
says what a source and a sink are.
"""

from eventsieve.broker.broker import Broker
from eventsieve.broker.sinks import AsyncDeliveries, NextHop
from eventsieve.broker.transport import Delivery, Message

__all__ = ["AsyncDeliveries", "Broker", "Delivery", "Message", "NextHop"]
