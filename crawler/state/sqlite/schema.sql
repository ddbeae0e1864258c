-- Version 3. Times are Unix seconds. `rank` orders pages within a crawl: priority, then depth (see lanes.py).

CREATE TABLE crawl (
    id INTEGER PRIMARY KEY AUTOINCREMENT,   -- never used again: processes remember pages by it
    name TEXT NOT NULL UNIQUE,
    started_at REAL NOT NULL,
    settings BLOB NOT NULL,                 -- CrawlSettings as JSON
    store TEXT NOT NULL,
    completed_at REAL,
    updated_at REAL NOT NULL,
    amended_at REAL NOT NULL DEFAULT 0,     -- 0: never
    purged INTEGER NOT NULL DEFAULT 0,      -- 1: being dropped, its pages first and this row last
    paused INTEGER NOT NULL DEFAULT 0,      -- 1: no page is handed out
    discovered INTEGER NOT NULL DEFAULT 0,  -- the ledger's sums, changed in the transaction that changes the pages
    pending INTEGER NOT NULL DEFAULT 0,
    leased INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    hosts INTEGER NOT NULL DEFAULT 0,
    served INTEGER NOT NULL DEFAULT 0       -- number of the last lease; the largest of all crawls is the state's
);

-- How many pages of a crawl were skipped, or are dead letters, for which reason.
CREATE TABLE reason (
    crawl INTEGER NOT NULL,
    phase INTEGER NOT NULL,                 -- 3 skipped, 4 dead
    name TEXT NOT NULL,
    pages INTEGER NOT NULL,
    PRIMARY KEY (crawl, phase, name)
) WITHOUT ROWID;

CREATE TABLE gate (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    next_at REAL NOT NULL DEFAULT 0,        -- no turn before: the latest turn and the interval of its crawl
    last_at REAL NOT NULL DEFAULT 0,        -- start of the latest turn
    interval REAL NOT NULL DEFAULT 0,       -- the gate's own minimum between turns
    held_until REAL NOT NULL DEFAULT 0,     -- no turn before
    held_why TEXT NOT NULL DEFAULT '',
    health BLOB                             -- Health as MessagePack; NULL: nothing is known
);

-- Requests that take long, and when the last sign of them is too old to count.
CREATE TABLE flight (
    gate INTEGER NOT NULL,
    name TEXT NOT NULL,
    until REAL NOT NULL,
    PRIMARY KEY (gate, name)
) WITHOUT ROWID;

-- The pages of one crawl behind one gate.
CREATE TABLE lane (
    id INTEGER PRIMARY KEY,
    crawl INTEGER NOT NULL,
    gate INTEGER NOT NULL,
    open INTEGER NOT NULL DEFAULT 0,        -- claims look at it (see opening.py)
    look_at REAL DEFAULT 0,                 -- when to work `open` out anew; NULL: when something happens
    rank INTEGER,                           -- best rank of a pending page; NULL: none is pending
    served INTEGER NOT NULL DEFAULT 0,      -- number of its latest lease: hosts take turns by it
    pending INTEGER NOT NULL DEFAULT 0,     -- sums of its pages, changed in the transaction that changes them
    leased INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0,
    UNIQUE (gate, crawl)
);
CREATE INDEX lane_order ON lane (crawl, open, rank, served) WHERE rank IS NOT NULL;
CREATE INDEX lane_due ON lane (look_at) WHERE look_at IS NOT NULL;

CREATE TABLE page (
    id INTEGER PRIMARY KEY,                 -- order of discovery; rows are appended, whatever their digest
    crawl INTEGER NOT NULL,
    digest BLOB NOT NULL,
    lane INTEGER,                           -- NULL: skipped when it was found
    rank INTEGER NOT NULL,
    phase INTEGER NOT NULL,                 -- 0 pending, 1 leased, 2 done, 3 skipped, 4 dead, 5 delayed
    wakes_at REAL,                          -- end of the lease or of the delay
    fence INTEGER NOT NULL DEFAULT 0,       -- raised by every lease
    failures INTEGER NOT NULL DEFAULT 0,    -- failed attempts, since it was revived if it was
    receives INTEGER NOT NULL DEFAULT 0,
    found_at REAL NOT NULL,
    parent INTEGER NOT NULL,                -- id of a page; negative: of a source; 0: a seed
    url TEXT NOT NULL,
    worker TEXT,                            -- holder of the lease
    reason TEXT,                            -- of a skipped or dead page
    history BLOB                            -- the latest failed attempts as JSON; NULL: none
);
-- The visited set. A digest is unique in its crawl, because all adding is one writer at a time; the parent is in the
-- index so that a known link is known without reading its page.
CREATE INDEX page_digest ON page (crawl, digest, parent);
CREATE INDEX page_pending ON page (lane, rank) WHERE phase = 0;
CREATE INDEX page_dead ON page (crawl) WHERE phase = 4;
CREATE INDEX page_timed ON page (phase, wakes_at) WHERE wakes_at IS NOT NULL;

-- Parents that are no pages themselves, for the parent_url of their children.
CREATE TABLE source (
    id INTEGER PRIMARY KEY,
    crawl INTEGER NOT NULL,
    digest BLOB NOT NULL,
    url TEXT NOT NULL,
    UNIQUE (crawl, digest)
);

CREATE TABLE scope (
    crawl INTEGER NOT NULL,
    site TEXT NOT NULL,
    PRIMARY KEY (crawl, site)
) WITHOUT ROWID;

CREATE TABLE fact (
    name BLOB NOT NULL UNIQUE,              -- UTF-8
    value BLOB NOT NULL,
    until REAL NOT NULL
);
CREATE INDEX fact_until ON fact (until);

CREATE TABLE worker (
    name TEXT PRIMARY KEY,
    at REAL NOT NULL,
    rate REAL NOT NULL,
    held INTEGER NOT NULL
) WITHOUT ROWID;
