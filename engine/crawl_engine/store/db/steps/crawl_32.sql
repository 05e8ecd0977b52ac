-- what format 32 adds to a database of format 31
CREATE TABLE refusals (                            -- hosts that refuse one request after the other
    host       INTEGER PRIMARY KEY REFERENCES hosts(id), -- that has the limits of those with one limit together
    refused    INTEGER NOT NULL,                     -- requests in a row
    seconds    REAL NOT NULL,                        -- in which they were, without waits that somebody asked for
    counted_to REAL,                                 -- boot time from which time counts on; null: from the next refusal
    given_up   INTEGER NOT NULL DEFAULT 0            -- 1: its pages are no longer asked for
);
