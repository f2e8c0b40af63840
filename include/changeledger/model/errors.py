"""The errors that stop a run. Each says what is wrong and what to do about it."""


class ChangeledgerError(Exception):
    """A run cannot continue. `remedy` says what the person on call does next.

    `retryable` is False if trying again without a change gives the same failure, so that the
    orchestrator fails at once.
    """

    retryable = False
    # True for a result that a page reports, as opposed to a failure of the work that writes the page.
    reported = False

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}\n  Remedy: {remedy}")
        self.message = message
        self.remedy = remedy


class ConfigError(ChangeledgerError):
    """A feed file, a setting or a connection is missing or wrong; found before anything is read."""


class ContractError(ChangeledgerError):
    """What a feed says of a table cannot be reconciled with the table's contract."""


class SourceDataLostError(ChangeledgerError):
    """The source no longer keeps some changes after the last release."""


class AuditFailed(ChangeledgerError):
    """A rule failed on the branch: nothing was published, and the branch is kept for inspection."""


class FeedsDisagree(ChangeledgerError):
    """Two feeds of one database differ by more than is tolerated."""

    reported = True


class PublishedDrifts(ChangeledgerError):
    """The published data of a feed does not match its source."""

    reported = True


class RowsTooLarge(ChangeledgerError):
    """One process cannot hold the rows that it was given."""


def load_again(feed: str) -> str:
    """Returns the remedy for a source that has lost changes after the last release."""
    return (
        f"let the source send a snapshot, then load the feed again: `changeledger reset {feed} --accept-gap "
        "--reason ...`, and run it (docs/when-a-run-stops.md, 'A gap')"
    )


class StageOrderError(ChangeledgerError):
    """A stage was run before the one that feeds it."""


class WorkedOn(ChangeledgerError):
    """Another process does the work and reports its result. This is not a failure of the work."""

    retryable = True


class LeaseHeld(WorkedOn):
    """Another run of the same feed is running."""


class LeaseLost(WorkedOn):
    """Another run has taken over the feed: nothing that this run still does takes effect."""


class ReleaseStuck(ChangeledgerError):
    """A committed release cannot be completed: somebody else has written a published table."""


class StoresDisagree(ChangeledgerError):
    """The control store and the lake do not match: one was lost, or restored without the other."""


class SourceUnavailable(ChangeledgerError):
    """A broker, a database, the catalog or storage cannot be reached."""

    retryable = True


class SparkNeeded(ChangeledgerError):
    """A stage that must run without Spark needs Spark."""


class SparkUnavailable(SourceUnavailable):
    """Spark itself does not answer, or has no room to work."""
