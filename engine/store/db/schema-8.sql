-- Migration 8 of crawl.db: what an operator stopped is found without reading all sequences of a run.

CREATE INDEX sequences_stopped ON sequences(run) WHERE paused = 2;
