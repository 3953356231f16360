"""Kafka as a source: ``intake`` reads a topic as a member of a group, ``dead_letters`` writes another."""

from __future__ import annotations

from skitter.errors import ExtraMissingError
from skitter.intakes.contract import Intake
from skitter.intakes.sources import Source


def kafka_intake(source: Source) -> Intake:
    try:
        from skitter.intakes.kafka.intake import KafkaIntake
    except ModuleNotFoundError as error:
        raise ExtraMissingError("requests from a Kafka topic", "kafka") from error
    return KafkaIntake(source)
