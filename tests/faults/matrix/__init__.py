"""The generated fault matrix: faults, between any two external effects of every stage, and ways to go on.

`effects` finds the effects in a job's process, `job` starts jobs, `faults` says what is broken, `cells`
chooses what is run, `lab` has the services, `remote` the lake on S3 behind a `proxy`, `scene` runs one cell,
`judge` compares, `outcomes` keeps what was found, `page` writes `docs/reliability.md`, and
`python -m tests.faults.matrix` does all of it.
"""
