"""No Airflow DAG: what is wrong in the YAML of feeds and databases, where Airflow shows import errors.

What is broken is left out of the DAGs of the other files, and takes none of the rest with it.
"""

from changeledger.config.database import readable_databases
from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.model.errors import ConfigError
from changeledger.orchestration import with_notifiers

settings = Settings()
feeds, of_feeds = readable_feeds(settings.feeds)
databases, of_databases = readable_databases(settings.databases, feeds)
of_notifiers = [*with_notifiers(feeds)[1], *with_notifiers(databases)[1]]
if errors := [*of_feeds, *of_databases.values(), *of_notifiers]:
    raise ConfigError("; ".join(one.message for one in errors), "; ".join(one.remedy for one in errors))
