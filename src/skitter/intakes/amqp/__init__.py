"""AMQP as a source: ``intake`` consumes a queue, ``dead_letters`` says what becomes of a message's properties."""

from __future__ import annotations

from skitter.errors import ExtraMissingError
from skitter.intakes.contract import Intake
from skitter.intakes.sources import Source


def amqp_intake(source: Source) -> Intake:
    try:
        from skitter.intakes.amqp.intake import AmqpIntake
    except ModuleNotFoundError as error:
        raise ExtraMissingError("requests from an AMQP queue", "amqp") from error
    return AmqpIntake(source)
