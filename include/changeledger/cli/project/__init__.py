"""A new project: the files that `changeledger init` writes, from those in this folder."""
