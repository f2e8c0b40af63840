"""Turn the window's raw records into canonical changes and dispositions."""

from changeledger.job import main
from changeledger.stages import normalize

if __name__ == "__main__":
    main(normalize.run)
