"""kill -9 of workers, of the process that reads the intake and of the broker: every message is crawled once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pika
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rig.fed_crawl import FedCrawl, Outcome
from rig.servers.streams import OwnKafka, OwnRabbitmq, RabbitmqCluster
from rig.services import OwnServers
from rig.soak import chance_of
from skitter.testing.web import WebSpec, served

REPORTS = Path(__file__).resolve().parents[2] / "build" / "fault-report"
HOSTS = 5


class FedByRabbitmq:
    """A queue of one node or of a cluster."""

    def __init__(self, server: OwnRabbitmq | RabbitmqCluster, kind: str) -> None:
        self._server = server
        self.source = f"{server.url}?declare={kind}#urls"
        self._nodes = server.nodes if isinstance(server, RabbitmqCluster) else [server]
        self._declared = {"x-queue-type": kind}
        # Both long before the first kill: RabbitMQ 3.10 forgets a quorum queue made in the half second before its
        # only node is killed, and then neither confirms nor refuses what is sent to it.
        for name in ("urls", "urls.dead-letters"):
            self.with_channel(
                lambda channel, name=name: channel.queue_declare(name, durable=True, arguments=self._declared)
            )

    def with_channel(self, work: Callable[[Any], Any]) -> Any:
        deadline = time.monotonic() + 60
        while True:
            for node in self._nodes:
                try:
                    with pika.BlockingConnection(pika.URLParameters(f"{node.url}/%2F")) as connection:
                        channel = connection.channel()
                        channel.confirm_delivery()
                        return work(channel)
                except (pika.exceptions.AMQPError, OSError):
                    assert time.monotonic() < deadline, "no node takes messages"

    def put(self, bodies: Sequence[bytes]) -> None:
        def publish(channel: Any) -> None:
            for body in bodies:
                channel.basic_publish("", "urls", body, pika.BasicProperties(delivery_mode=2), mandatory=True)

        self.with_channel(publish)

    def dead_letters(self) -> list[bytes]:
        def read(channel: Any) -> list[bytes]:
            found = []
            while (letter := channel.basic_get("urls.dead-letters", auto_ack=True))[0] is not None:
                found.append(letter[2])
            return found

        found: list[bytes] = self.with_channel(read)
        return found

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()


class FedByKafka:
    def __init__(self, server: OwnKafka) -> None:
        self._server = server
        self.source = f"{server.url}#urls"
        self._settings = {"bootstrap.servers": server.url.removeprefix("kafka://"), "log_level": 0}
        admin = AdminClient(self._settings)
        admin.create_topics([NewTopic("urls", 3, 1)])["urls"].result(30)

    def put(self, bodies: Sequence[bytes]) -> None:
        producer = Producer(self._settings | {"enable.idempotence": True})
        for body in bodies:
            producer.produce("urls", body, body)
        assert producer.flush(60) == 0

    def dead_letters(self) -> list[bytes]:
        consumer = Consumer(self._settings | {"group.id": "x", "enable.partition.eof": True})
        found = []
        try:
            consumer.assign([TopicPartition("urls.dead-letters", 0, OFFSET_BEGINNING)])
            while (message := consumer.poll(60)) is not None and message.error() is None:
                found.append(message.value())
        finally:
            consumer.close()
        return found

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()


MADE: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "rabbitmq": (OwnRabbitmq, lambda server: FedByRabbitmq(server, "classic")),
    "rabbitmq-quorum": (OwnRabbitmq, lambda server: FedByRabbitmq(server, "quorum")),
    "kafka": (OwnKafka, FedByKafka),
}


def fed_by(own_server: OwnServers, kind: str) -> Any:
    make, feed = MADE[kind]
    return feed(own_server(make))


@pytest.fixture
def rabbitmq(own_server: OwnServers) -> Any:
    return fed_by(own_server, "rabbitmq-quorum")


@pytest.fixture(params=list(MADE))
def broker(own_server: OwnServers, request: pytest.FixtureRequest) -> Any:
    return fed_by(own_server, request.param)


def crawl_under_kills(skitter: Any, broker: Any, *, messages: int, kills: int) -> Outcome:
    chance = chance_of(messages)
    with served(WebSpec.plain(hosts=HOSTS, pages_per_host=messages // HOSTS)) as web:
        crawl = FedCrawl(skitter, broker, sorted(web.expected().done), chance)
        faults = [crawl.kill_a_worker, crawl.kill, crawl.kill_broker] * kills
        chance.shuffle(faults)
        return crawl.run(faults)


# RabbitMQ 3.10 at times confirms nothing any more for a quorum queue if it is killed soon after that was made. The
# crawl waits for it, as it should, and so does the test.
@pytest.mark.soak
@pytest.mark.timeout(900)
def test_every_message_is_crawled_once_whoever_is_killed(skitter, rabbitmq):
    outcome = crawl_under_kills(skitter, rabbitmq, messages=1000, kills=1)
    assert outcome[:4] == (0, 0, 0, 1000)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("messages", "kills"), [(10_000, 5), (100_000, 20)])
def test_messages_of_each_broker_under_many_kills(skitter, broker, messages, kills, request):
    outcome = crawl_under_kills(skitter, broker, messages=messages, kills=kills)
    kind = request.node.callspec.params["broker"]
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / f"intake-{kind}-{messages}-soak.txt").write_text(
        f"kill -9 of workers, of the reading process and of the broker, {kills} each, {kind}: {messages} messages,"
        f" missing {outcome.missing}, doubled {outcome.doubled}, poison lost {outcome.lost_poison}\n"
    )
    assert outcome[:4] == (0, 0, 0, messages)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_one_node_of_a_cluster_after_the_other_is_killed(skitter, own_server):
    cluster = own_server(RabbitmqCluster)
    with served(WebSpec.plain(hosts=HOSTS, pages_per_host=600, latency_seconds=0.02)) as web:
        broker = FedByRabbitmq(cluster, "quorum")
        crawl = FedCrawl(skitter, broker, sorted(web.expected().done), chance_of(3))
        kills = [node.kill for node in cluster.nodes]
        starts = [node.start for node in cluster.nodes]
        # The node has failed while the next portion is put and read, and back before the next one is killed.
        outcome = crawl.run([step for pair in zip(kills, starts, strict=True) for step in pair])
    assert outcome[:4] == (0, 0, 0, 5 * 600)
    assert outcome.longest_gap_seconds < 10
    REPORTS.mkdir(parents=True, exist_ok=True)
    (REPORTS / "intake-rabbitmq-cluster-soak.txt").write_text(
        f"kill -9 of one of three nodes after the other: missing 0, doubled 0, longest pause"
        f" {outcome.longest_gap_seconds:.1f} s\n"
    )


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_broker_that_stands_still_for_ninety_seconds_loses_nothing(skitter, rabbitmq):
    with served(WebSpec.plain(hosts=HOSTS, pages_per_host=200)) as web:
        crawl = FedCrawl(skitter, rabbitmq, sorted(web.expected().done), chance_of(4))

        def stand_still() -> None:
            rabbitmq._server.freeze()
            time.sleep(90)
            rabbitmq._server.thaw()

        assert crawl.run([stand_still])[:4] == (0, 0, 0, 5 * 200)
