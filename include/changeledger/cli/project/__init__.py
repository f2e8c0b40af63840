"""The files of a new project, which `changeledger init` writes from those in this folder."""
