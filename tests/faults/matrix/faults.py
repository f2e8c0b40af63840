"""What breaks, where it can break, and the ways to go on after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from changeledger.model.window import STAGES
from tests.faults.matrix.effects import CONTROL, LAKE

# The ways to go on after the fault.
RETRIES = {
    "task": "the task alone",
    "run": "the run from extract",
    "next": "the next window instead",
    "earlier": "an earlier window cleared first",
    "backfills": "three backfills at once",
}


class Fault(NamedTuple):
    """A fault.

    - `places`: at effects of this kind (`any`: of both), between stages, or at the source.
    - `cells`: how many are chosen; 0 for one at each place.
    """

    name: str
    says: str
    places: str
    cells: int
    stages: Sequence[str] = STAGES
    window: int = 2


FAULTS = (
    Fault("killed", "SIGKILL of the job between two effects", "any", 0),
    Fault("killed_during", "SIGKILL of the job while an effect happens", "any", 8),
    Fault("spark_killed", "SIGKILL of the Spark Connect server, the driver's JVM", "any", 5),
    Fault("orphan", "SIGKILL of the worker's supervisor: the job writes on beside its own retry", "any", 8),
    Fault("stopped", "SIGSTOP, past the lease, and on again when others have gone on", "any", 8),
    Fault("control_refused", "the control store refuses a transaction", CONTROL, 5),
    Fault("control_lost", "the control store commits, and the answer is lost", CONTROL, 8),
    Fault("control_locked", "the control store is locked by another program", "any", 4),
    Fault("catalog_refused", "Spark refuses a write", LAKE, 4),
    Fault("catalog_lost", "the lake is written, and the answer is lost", LAKE, 8),
    Fault("catalog_locked", "the catalog is locked by another program", "any", 4),
    Fault("stores_refused", "catalog and control store, in PostgreSQL, refuse connections", "any", 5),
    Fault("stores_restarted", "catalog and control store, in PostgreSQL, restart", "any", 5),
    Fault("disk_full", "the disk of the lake and the stores is full", "any", 5),
    Fault("read_only", "the lake's folders are read-only", LAKE, 4),
    Fault("clock_ahead", "the worker's clock is two hours ahead, then it is killed", "any", 4),
    Fault("clock_behind", "the worker's clock is two hours behind, then it is killed", "any", 4),
    Fault(
        "by_hand", "a killed publish is completed by `changeledger release complete`", "any", 2, ("publish",)
    ),
    Fault(
        "repeated", "a stage is run again, and publish follows without those between", "stage", 4, STAGES[:4]
    ),
    Fault("maintained", "`maintain` before the stage", "stage", 4, STAGES[1:]),
    Fault("replayed", "`quarantine replay` before the stage", "stage", 4, STAGES[1:], 3),
    Fault("paused", "paused before the stage, and another window is run meanwhile", "stage", 4, STAGES[1:]),
    Fault("source_gone", "the source does not answer", "source", 1, STAGES[:1]),
    Fault("source_gone_during", "the source goes while it is read", "source", 1, STAGES[:1]),
    Fault("cleaned", "a clean-up removes what was not read", "source", 1, STAGES[:1]),
    Fault("cleaned_during", "a clean-up removes it while it is read", "source", 1, STAGES[:1]),
    Fault(
        "cleaned_uncounted",
        "a clean-up removes it between the check and the count",
        "source",
        1,
        STAGES[:1],
    ),
    Fault(
        "restored_shorter", "the source is restored, and ends before what was read", "source", 1, STAGES[:1]
    ),
    Fault("restored_longer", "the source is restored, and has grown beyond it", "source", 1, STAGES[:1]),
    Fault("broker_gone", "the broker does not answer", "topic", 1, STAGES[:1]),
    Fault("retention", "retention removes what was not read", "topic", 1, STAGES[:1]),
    Fault("retention_during", "retention removes it while it is read", "topic", 1, STAGES[:1]),
    Fault("topic_replaced", "the topic is created again while it is read", "topic", 1, STAGES[:1]),
    Fault("topic_shorter", "the topic is created again, and is shorter", "topic", 1, STAGES[:1]),
    Fault(
        "topic_longer",
        "the topic is created again, and has grown beyond what was read",
        "topic",
        1,
        STAGES[:1],
    ),
    Fault("partitions_added", "the topic gets a partition", "topic", 1, STAGES[:1]),
    Fault("producer_ahead", "a message's timestamp is a day ahead", "topic", 1, STAGES[:1]),
    Fault("hanging_transaction", "a producer's transaction stays open", "topic", 1, STAGES[:1]),
    Fault("half_done", "SIGKILL of the job, and its task is marked as a success", "any", 0, STAGES[:-1]),
    Fault("together", "a job that was left behind and its retry write at the same moment", LAKE, 0),
)
# On S3 and a REST catalog, each behind a proxy: the faults in which another lake differs.
ON_S3 = (
    Fault("killed", "SIGKILL of the job between two effects", LAKE, 0),
    Fault("killed_during", "SIGKILL of the job while an effect happens", LAKE, 8),
    Fault("spark_killed", "SIGKILL of the Spark Connect server, the driver's JVM", LAKE, 4),
    Fault("orphan", "SIGKILL of the worker's supervisor: the job writes on beside its own retry", LAKE, 6),
    Fault("stopped", "SIGSTOP, past the lease, and on again when others have gone on", LAKE, 6),
    Fault("together", "a job that was left behind and its retry write at the same moment", LAKE, 12),
    Fault("rest_away", "the catalog refuses connections from before the commit on", LAKE, 8),
    Fault("rest_cut", "the catalog goes when the commit is sent, and does not get it", LAKE, 8),
    Fault("rest_lost", "the catalog commits, and the answer is lost", LAKE, 14),
    Fault("rest_lost_away", "the catalog commits, and goes before it answers", LAKE, 8),
    Fault("rest_restarted", "the catalog is away for two seconds", LAKE, 4),
    Fault("rest_failing", "the catalog answers every other request with 503", LAKE, 8),
    Fault("rest_refusing", "the catalog answers every request with 503", LAKE, 4),
    Fault("store_away", "the store refuses connections", LAKE, 4),
    Fault("store_slow", "the store answers half a second later", LAKE, 4),
    Fault("store_failing", "the store answers every other request with 503", LAKE, 8),
    Fault("store_refusing", "the store answers every request with 503", LAKE, 4),
    Fault("store_half", "a file's upload breaks off in the middle, twice", LAKE, 10),
    Fault("maintained", "`maintain` before the stage", "stage", 4, STAGES[1:]),
)
# By the lake's place.
OF_LAKES = {"disk": FAULTS, "s3": ON_S3}
BY_NAME = {fault.name: fault for fault in (*ON_S3, *FAULTS)}
AT_EFFECTS = ("any", LAKE, CONTROL)
