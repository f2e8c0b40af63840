"""`python -m changeledger.cli`."""

from changeledger.cli.main import main

if __name__ == "__main__":
    main()
