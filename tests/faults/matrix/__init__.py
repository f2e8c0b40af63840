"""The generated fault matrix: faults between any two external effects of every stage, and ways to go on.

- `effects` finds the effects in a job's process; `job` starts jobs.
- `faults` lists what breaks; `cells` chooses what runs.
- `lab` has the services; `remote` has the lake on S3 behind a `proxy`.
- `scene` runs one cell; `judge` compares the tables; `outcomes` stores the results.
- `page` writes `docs/reliability.md`.

`python -m tests.faults.matrix` does all of it.
"""
