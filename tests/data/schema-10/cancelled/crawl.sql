CREATE TABLE appenders (
    epoch      INTEGER PRIMARY KEY AUTOINCREMENT,
    run        INTEGER NOT NULL REFERENCES runs(seq),
    supervisor INTEGER NOT NULL REFERENCES supervisors(epoch),
    state      TEXT NOT NULL DEFAULT 'STARTING'
        CHECK (state IN ('STARTING','READY','DONE','STANDBY','DRAINING','SHUTDOWN','TERMINATED','DEAD','FAILED')),
    identity   TEXT,
    pid        INTEGER,
    started_at REAL NOT NULL,
    ended_at   REAL,
    beat_age   REAL,
    flush_ms   REAL
);
INSERT INTO "appenders" VALUES(1,1,1,'TERMINATED','00000000-0000-0000-0000-000000000000:28527:7221479',28527,1.79564341732827973362e+09,1.79564341781944036488e+09,5.14535899856127798557e-03,0.0);
INSERT INTO "appenders" VALUES(2,2,2,'TERMINATED','00000000-0000-0000-0000-000000000000:28548:7221570',28548,1.79564341824469757085e+09,1.79564342005760097507e+09,1.45786927998415194451e-01,1.90265099809039384126e+00);
CREATE TABLE "checkpoints" (
    run               INTEGER NOT NULL REFERENCES runs(seq),
    grp               TEXT NOT NULL,
    task              TEXT NOT NULL DEFAULT '',        -- empty: a step that serves all tasks of the group
    step_name         TEXT NOT NULL,
    position          INTEGER NOT NULL DEFAULT 0,      -- in the chain: the main line, then side branches
    completed         INTEGER NOT NULL,
    completed_at      REAL,
    validation_status TEXT NOT NULL CHECK (validation_status IN ('valid','provisional','invalid')),
    reason            TEXT,
    content_hash      TEXT NOT NULL,
    dependencies      TEXT NOT NULL,                   -- JSON: steps of the task or group; GROUP/STEP in another group
    kept              INTEGER NOT NULL DEFAULT 0,      -- pages done before the content changed that are not processed again
    CHECK ((completed = 1) = (completed_at IS NOT NULL)),
    CHECK (completed = 0 OR validation_status <> 'invalid'),
    CHECK (completed = 1 OR validation_status <> 'valid'),
    PRIMARY KEY (run, grp, task, step_name)
) WITHOUT ROWID;
INSERT INTO "checkpoints" VALUES(1,'books','','loader',1,1,1.79564341782106494903e+09,'valid','1 job failed','efba8e753aacc309a45de5be3f067715','["shelves/loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'books','more','appender',4,1,1.79564341782106494903e+09,'valid',NULL,'63ecc9b5c8771a45776691d80b7edd68','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'books','more','filter',3,1,1.79564341782106494903e+09,'valid','1 job failed','d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'books','more','parser',2,1,1.79564341782106494903e+09,'valid','1 job failed','de3bd83c67f63267ee923944d0e35f0d','["loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'books','page','appender',4,1,1.79564341782106494903e+09,'valid',NULL,'5fb581f89abc31595e14b90b7842fdae','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'books','page','filter',3,1,1.79564341782106494903e+09,'valid','1 job failed','d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'books','page','parser',2,1,1.79564341782106494903e+09,'valid','1 job failed','257fbdb4e5f8695660a3425965778dc0','["loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'shelves','','loader',1,1,1.79564341782106494903e+09,'valid',NULL,'47eb94c112c2a145b42958b9e96cb42a','["seeder"]',0);
INSERT INTO "checkpoints" VALUES(1,'shelves','','seeder',0,1,1.79564341745461511609e+09,'valid',NULL,'7fe0b369103f1d3aa530e7132d042e39','[]',0);
INSERT INTO "checkpoints" VALUES(1,'shelves','list','appender',4,1,1.79564341782106494903e+09,'valid',NULL,'184546f66d8a89cbb55939877402e98d','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'shelves','list','filter',3,1,1.79564341782106494903e+09,'valid',NULL,'d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'shelves','list','parser',2,1,1.79564341782106494903e+09,'valid',NULL,'e0860723c4f90e8afe9c58707960244e','["loader"]',0);
INSERT INTO "checkpoints" VALUES(2,'books','','loader',1,0,NULL,'provisional','cancelled by command: 2 jobs left','efba8e753aacc309a45de5be3f067715','["shelves/loader"]',0);
INSERT INTO "checkpoints" VALUES(2,'books','more','appender',4,0,NULL,'provisional','cancelled by command: 2 jobs left','63ecc9b5c8771a45776691d80b7edd68','["filter"]',0);
INSERT INTO "checkpoints" VALUES(2,'books','more','filter',3,0,NULL,'provisional','cancelled by command: 2 jobs left','d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(2,'books','more','parser',2,0,NULL,'provisional','cancelled by command: 2 jobs left','de3bd83c67f63267ee923944d0e35f0d','["loader"]',0);
INSERT INTO "checkpoints" VALUES(2,'books','page','appender',4,0,NULL,'provisional','cancelled by command: 2 jobs left','5fb581f89abc31595e14b90b7842fdae','["filter"]',0);
INSERT INTO "checkpoints" VALUES(2,'books','page','filter',3,0,NULL,'provisional','cancelled by command: 2 jobs left','d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(2,'books','page','parser',2,0,NULL,'provisional','cancelled by command: 2 jobs left','257fbdb4e5f8695660a3425965778dc0','["loader"]',0);
INSERT INTO "checkpoints" VALUES(2,'shelves','','loader',1,0,NULL,'provisional','cancelled by command: 1 job left','47eb94c112c2a145b42958b9e96cb42a','["seeder"]',0);
INSERT INTO "checkpoints" VALUES(2,'shelves','','seeder',0,1,1.79564341838249444957e+09,'valid',NULL,'7fe0b369103f1d3aa530e7132d042e39','[]',0);
INSERT INTO "checkpoints" VALUES(2,'shelves','list','appender',4,0,NULL,'provisional','cancelled by command: 1 job left','184546f66d8a89cbb55939877402e98d','["filter"]',0);
INSERT INTO "checkpoints" VALUES(2,'shelves','list','filter',3,0,NULL,'provisional','cancelled by command: 1 job left','d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(2,'shelves','list','parser',2,0,NULL,'provisional','cancelled by command: 1 job left','e0860723c4f90e8afe9c58707960244e','["loader"]',0);
CREATE TABLE commands (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    supervisor INTEGER NOT NULL REFERENCES supervisors(epoch),
    name       TEXT NOT NULL,
    arguments  TEXT NOT NULL DEFAULT '{}',
    state      TEXT NOT NULL DEFAULT 'NEW' CHECK (state IN ('NEW','DONE','REFUSED','EXPIRED')),
    answer     TEXT,
    given_at   REAL NOT NULL,
    ended_at   REAL
);
INSERT INTO "commands" VALUES(1,2,'cancel','{}','DONE','cancelling; 2 jobs in flight have 1 s to finish',1.79564341895746707919e+09,1.79564341901166129112e+09);
CREATE TABLE content_sums (                         -- of a group; they move in the commits
    run          INTEGER NOT NULL REFERENCES runs(seq),
    grp          TEXT NOT NULL,
    documents    INTEGER NOT NULL,                  -- jobs that have a document
    document_sum BLOB NOT NULL,                     -- of their digests, once for each job
    rows         INTEGER NOT NULL,
    row_sum      BLOB NOT NULL,
    PRIMARY KEY (run, grp)
) WITHOUT ROWID;
INSERT INTO "content_sums" VALUES(1,'books',11,X'F4D03321C8BE581B9D0F05955A554508',10,X'85C9F28D3C6A3CF69DA9284DB3621BC7');
INSERT INTO "content_sums" VALUES(1,'shelves',3,X'4A3846375278EB63B61D9C9D94AF1C66',12,X'378446D036E0D82A8D7620DA56AF21BF');
INSERT INTO "content_sums" VALUES(2,'books',5,X'009C7279031C57A1F4F55FD9A2C7E74B',4,X'FBCFF626EB56BE0D786472D14EF20FDC');
INSERT INTO "content_sums" VALUES(2,'shelves',2,X'5776077D49C736E9A6BE8C4DB9D9D70B',8,X'AA9ACB78C76E17AEFCB97B1E8ABED882');
CREATE TABLE data_defs (
    id      INTEGER PRIMARY KEY,
    name    TEXT NOT NULL,
    hash    TEXT NOT NULL,
    UNIQUE (name, hash)
);
INSERT INTO "data_defs" VALUES(1,'book','efcd6df2ee5b6c14c092dcc123c5d0cd');
INSERT INTO "data_defs" VALUES(2,'entry','97a0c733e9d7d25aec34aa6a215115a7');
INSERT INTO "data_defs" VALUES(3,'nothing','058da95980e353a006e3bfdd7b5aa18f');
CREATE TABLE def_versions (
    version     INTEGER PRIMARY KEY,
    hash        TEXT NOT NULL,
    definitions TEXT NOT NULL,
    accepted_at REAL NOT NULL
);
INSERT INTO "def_versions" VALUES(1,'1e4152af3c852a6a2c858fbb13d078da','{"appenders":[{"data_defs":[],"delimiter":",","name":"lines","path":null,"place":["defs/crawl.yml",24,32],"type":"jsonl"},{"data_defs":[],"delimiter":",","name":"rows","path":null,"place":["defs/crawl.yml",24,13],"type":"csv"}],"base_url":null,"data_defs":[{"block":null,"fields":[{"all":false,"attribute":"text","default":null,"fields":[],"format":null,"has_default":false,"join":"|","match":null,"name":"isbn","place":["defs/crawl.yml",17,7],"required":true,"selector":"b","type":"str","value":null},{"all":false,"attribute":"text","default":null,"fields":[],"format":null,"has_default":false,"join":"|","match":null,"name":"path","place":["defs/crawl.yml",18,7],"required":false,"selector":null,"type":"str","value":"%{document.url}"}],"filters":[],"key":[],"links":[],"name":"book","place":["defs/crawl.yml",15,3]},{"block":"li","fields":[{"all":false,"attribute":"text","default":null,"fields":[],"format":null,"has_default":false,"join":"|","match":null,"name":"title","place":["defs/crawl.yml",10,7],"required":false,"selector":"a","type":"str","value":null},{"all":false,"attribute":"text","default":null,"fields":[],"format":null,"has_default":false,"join":"|","match":"[0-9.]+","name":"price","place":["defs/crawl.yml",11,7],"required":false,"selector":"i","type":"decimal","value":null}],"filters":[],"key":[],"links":[{"allow":[],"attribute":"href","deny":[],"group":"shelves","max_depth":null,"place":["defs/crawl.yml",13,9],"priority":null,"same_host":true,"selector":"a.next"},{"allow":[],"attribute":"href","deny":[],"group":"books","max_depth":null,"place":["defs/crawl.yml",14,9],"priority":null,"same_host":true,"selector":"li a"}],"name":"entry","place":["defs/crawl.yml",7,3]},{"block":"p.none","fields":[{"all":false,"attribute":"text","default":null,"fields":[],"format":null,"has_default":false,"join":"|","match":null,"name":"x","place":["defs/crawl.yml",21,14],"required":false,"selector":"u","type":"str","value":null},{"all":false,"attribute":"text","default":null,"fields":[],"format":null,"has_default":false,"join":"|","match":null,"name":"y","place":["defs/crawl.yml",21,32],"required":false,"selector":"s","type":"str","value":null}],"filters":[],"key":[],"links":[],"name":"nothing","place":["defs/crawl.yml",19,3]}],"files":["defs/crawl.yml"],"hosts":[{"concurrency":4,"cookies":{},"delay":0.0,"headers":{},"name":"127.0.0.1","nofollow":true,"place":["defs/crawl.yml",23,3],"robots":true}],"locator_groups":[{"locators":[{"body":null,"content_type":null,"cookies":{},"from_file":null,"headers":{},"method":"GET","name":"start","place":["defs/crawl.yml",2,24],"sitemap":null,"urls":["http://127.0.0.1:20471/shelf/0"]}],"name":"shelves","place":["defs/crawl.yml",2,3]}],"task_groups":[{"live":null,"max_depth":null,"max_pages":null,"name":"books","place":["defs/crawl.yml",5,3],"priority":0,"tasks":[{"data_def":"book","name":"page","persist":true,"place":["defs/crawl.yml",5,11],"steps":null},{"data_def":"nothing","name":"more","persist":true,"place":["defs/crawl.yml",5,34],"steps":null}]},{"live":null,"max_depth":null,"max_pages":null,"name":"shelves","place":["defs/crawl.yml",4,3],"priority":0,"tasks":[{"data_def":"entry","name":"list","persist":true,"place":["defs/crawl.yml",4,13],"steps":null}]}]}',1.79564341731210398676e+09);
CREATE TABLE deliveries (                           -- what an appender got; kept when its output is removed
    id         INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL REFERENCES runs(seq),
    appender   TEXT NOT NULL,
    data_def   TEXT NOT NULL,
    cursor     INTEGER NOT NULL DEFAULT 0,          -- the last row it acknowledged
    withdrawal INTEGER NOT NULL DEFAULT 0,          -- the last withdrawal it acknowledged
    rows       INTEGER NOT NULL DEFAULT 0,          -- acknowledged, without those taken back
    offered    INTEGER NOT NULL DEFAULT 0,          -- the highest row that it may have got
    batch      TEXT,                                -- JSON: the end of the batch that is being sent
    UNIQUE (run, appender, data_def)
);
CREATE TABLE document_aliases (
    key      BLOB NOT NULL,                        -- of a request redirected to the document
    document INTEGER NOT NULL REFERENCES documents(id),
    PRIMARY KEY (key, document)
) WITHOUT ROWID;
CREATE TABLE document_links (                       -- of pages whose rows may be copied: followed without reading the page
    document INTEGER NOT NULL,
    context  BLOB NOT NULL,                         -- hash of what else decides which links a page has: group, defs, settings
    links    BLOB NOT NULL,                         -- JSON compressed with zstd; empty: none
    PRIMARY KEY (document, context)
) WITHOUT ROWID;
CREATE TABLE documents (
    id           INTEGER PRIMARY KEY,              -- id of its page in pages.db
    run          INTEGER NOT NULL REFERENCES runs(seq),
    key          BLOB NOT NULL,                    -- hash of method, URL and body; empty: no longer reused
    url          TEXT NOT NULL,                    -- after redirects
    status       INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    fetched_at   REAL NOT NULL,
    size         INTEGER NOT NULL, pruned INTEGER NOT NULL DEFAULT 0, digest BLOB, checked_at REAL, checked_run INTEGER, recrawl_after REAL);
INSERT INTO "documents" VALUES(1,1,X'E4AE579AC148A142359FA31BD10123CE','http://127.0.0.1:20471/shelf/0',200,'text/html; charset=utf-8',1.79564341775464296341e+09,343,0,X'4F9945E72408B3F7D8AFFB9FB6BA01DE',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(2,1,X'9860F6E1FE165E246BEC6A10C7708BEA','http://127.0.0.1:20471/shelf/1',200,'text/html; charset=utf-8',1.79564341776521730429e+09,343,0,X'07DCC19625BE82F1CE0E90AE031FD52D',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(3,1,X'C782AB55ED132D43763C36069F949B8F','http://127.0.0.1:20471/book/0-0',200,'text/html; charset=utf-8',1.79564341776702690121e+09,57,0,X'3BE4808FC30C72017B29C35D0A1B60CB',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(4,1,X'08BBC7112981599E1E3E3951C5DB086E','http://127.0.0.1:20471/book/0-3',200,'text/html; charset=utf-8',1.79564341776828098294e+09,57,0,X'CB554C19D9AF9355EAFB2A39B1A539BD',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(5,1,X'12627E4730CD98112A99FBEEAE6B4D85','http://127.0.0.1:20471/shelf/2',200,'text/html; charset=utf-8',1.79564341777922606467e+09,305,0,X'F2C23EBA08B1B47A0F5F104FDAD5455B',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(6,1,X'BBCAA8E97E0255A2E6D0AEBBC5CAC211','http://127.0.0.1:20471/book/1-0',200,'text/html; charset=utf-8',1.79564341778075098991e+09,57,0,X'E15C63E263485224EF3E97D1F570729E',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(7,1,X'D7991510A19129F5CE9664D8BCDB639D','http://127.0.0.1:20471/book/1-1',200,'text/html; charset=utf-8',1795643417.78108,57,0,X'B87978649B48247699468ECECAE7BE10',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(8,1,X'5EDC1658B309540482B473604725D7AF','http://127.0.0.1:20471/book/1-2',200,'text/html; charset=utf-8',1.79564341778159952166e+09,57,0,X'7B8656AC980AAB7F800EBAF8BC7E85C6',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(9,1,X'9DAE652BC883F965A5957C764B757285','http://127.0.0.1:20471/book/1-3',200,'text/html; charset=utf-8',1.79564341778254079814e+09,57,0,X'D84A6A8A8E532DA8AAA4662AF854BAAD',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(10,1,X'9B1409F1A718B3F1B89898B9EF0881E2','http://127.0.0.1:20471/book/2-0',200,'text/html; charset=utf-8',1.79564341778879189492e+09,57,0,X'C4E6EC35FF1E96F6A31F0684CD399687',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(11,1,X'8074AADC558401E50A4995438480935C','http://127.0.0.1:20471/book/2-1',200,'text/html; charset=utf-8',1.79564341778913235661e+09,57,0,X'AEBBC349E100EDFAD8A60C1C6EFBB57A',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(12,1,X'2F505DEEE61CD0EBAB6427157F287F04','http://127.0.0.1:20471/book/2-2',200,'text/html; charset=utf-8',1.7956434177893331051e+09,57,0,X'CF630C4F2A9E1918A68BC19FFE7D4B05',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(13,1,X'797686918F862ABC3B8D95F9CAA8B65B','http://127.0.0.1:20471/book/2-3',200,'text/html; charset=utf-8',1.79564341778980207445e+09,57,0,X'17582892BC53EBD3FD43AAD9BC829609',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(14,1,X'','http://127.0.0.1:20471/book/0-1',403,'text/html; charset=utf-8',1.79564341779310941695e+09,2,0,X'A591E49840027922641D511F32340C50',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(15,2,X'E4AE579AC148A142359FA31BD10123CE','http://127.0.0.1:20471/shelf/0',200,'text/html; charset=utf-8',1.79564341868119406704e+09,343,0,X'4F9945E72408B3F7D8AFFB9FB6BA01DE',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(16,2,X'9860F6E1FE165E246BEC6A10C7708BEA','http://127.0.0.1:20471/shelf/1',200,'text/html; charset=utf-8',1.7956434186963410377e+09,343,0,X'07DCC19625BE82F1CE0E90AE031FD52D',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(17,2,X'C782AB55ED132D43763C36069F949B8F','http://127.0.0.1:20471/book/0-0',200,'text/html; charset=utf-8',1.79564341869876790049e+09,57,0,X'3BE4808FC30C72017B29C35D0A1B60CB',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(18,2,X'08BBC7112981599E1E3E3951C5DB086E','http://127.0.0.1:20471/book/0-3',200,'text/html; charset=utf-8',1.79564341870013236997e+09,57,0,X'CB554C19D9AF9355EAFB2A39B1A539BD',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(19,2,X'5EDC1658B309540482B473604725D7AF','http://127.0.0.1:20471/book/1-2',200,'text/html; charset=utf-8',1.79564341870839929574e+09,57,0,X'7B8656AC980AAB7F800EBAF8BC7E85C6',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(20,2,X'9DAE652BC883F965A5957C764B757285','http://127.0.0.1:20471/book/1-3',200,'text/html; charset=utf-8',1.79564341870945143701e+09,57,0,X'D84A6A8A8E532DA8AAA4662AF854BAAD',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(21,2,X'','http://127.0.0.1:20471/book/0-1',403,'text/html; charset=utf-8',1.79564341876627302165e+09,2,0,X'A591E49840027922641D511F32340C50',NULL,NULL,NULL);
CREATE TABLE events (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    run    INTEGER,
    at     REAL NOT NULL,
    level  TEXT NOT NULL CHECK (level IN ('INFO','WARNING','ERROR')),
    source TEXT NOT NULL,                          -- supervisor, appender, n1, …
    kind   TEXT NOT NULL,                          -- run, stage, node, page, row, defs, command, …
    job    INTEGER,
    text   TEXT NOT NULL
);
INSERT INTO "events" VALUES(1,1,1.79564341731026268006e+09,'INFO','supervisor','run',NULL,'run 9b0d8d started, defs v1');
INSERT INTO "events" VALUES(2,1,1.7956434173269853592e+09,'INFO','supervisor','stage',NULL,'CHECK_LOCK');
INSERT INTO "events" VALUES(3,1,1.7956434173269853592e+09,'INFO','supervisor','stage',NULL,'START_APPENDER');
INSERT INTO "events" VALUES(4,1,1.79564341733298015596e+09,'INFO','supervisor','stage',NULL,'START_NODES');
INSERT INTO "events" VALUES(5,1,1.79564341733700323102e+09,'INFO','n1','state',NULL,'n1 STARTING RUNNER');
INSERT INTO "events" VALUES(6,1,1.79564341733822393411e+09,'INFO','supervisor','node',NULL,'n1 started as RUNNER');
INSERT INTO "events" VALUES(7,1,1.79564341735301613803e+09,'INFO','n2','state',NULL,'n2 STARTING RUNNER');
INSERT INTO "events" VALUES(8,1,1.79564341735387802121e+09,'INFO','supervisor','node',NULL,'n2 started as RUNNER');
INSERT INTO "events" VALUES(9,1,1.79564341737301206595e+09,'INFO','supervisor','stage',NULL,'RUNNING');
INSERT INTO "events" VALUES(10,1,1.79564341738600730894e+09,'INFO','supervisor','state',NULL,'run SEEDING');
INSERT INTO "events" VALUES(11,1,1.79564341745500707621e+09,'INFO','supervisor','state',NULL,'run READY');
INSERT INTO "events" VALUES(12,1,1.79564341772199416165e+09,'INFO','n1','state',NULL,'n1 DONE RUNNER');
INSERT INTO "events" VALUES(13,1,1.79564341774972367283e+09,'INFO','n1','page',1,'200 http://127.0.0.1:20471/robots.txt');
INSERT INTO "events" VALUES(14,1,1.79564341775790739063e+09,'INFO','n1','page',2,'200    1 ms    0 kB   4 rows  http://127.0.0.1:20471/shelf/0');
INSERT INTO "events" VALUES(15,1,1.79564341776475381844e+09,'INFO','n1','page',6,'SKIPPED: robots.txt disallows it (line 2: Disallow: /book/0-2)  http://127.0.0.1:20471/book/0-2');
INSERT INTO "events" VALUES(16,1,1.79564341776625132555e+09,'INFO','n1','page',3,'200    1 ms    0 kB   4 rows  http://127.0.0.1:20471/shelf/1');
INSERT INTO "events" VALUES(17,1,1.79564341776794147488e+09,'INFO','n1','page',4,'200    3 ms    0 kB   1 row   http://127.0.0.1:20471/book/0-0');
INSERT INTO "events" VALUES(18,1,1.79564341776819753641e+09,'WARNING','n1','page',5,'blocked: HTTP 403; attempt 2 after the other pages  http://127.0.0.1:20471/book/0-1');
INSERT INTO "events" VALUES(19,1,1.79564341776846265793e+09,'INFO','n1','page',7,'200    3 ms    0 kB   1 row   http://127.0.0.1:20471/book/0-3');
INSERT INTO "events" VALUES(20,1,1.79564341777987599366e+09,'INFO','n1','page',8,'200    1 ms    0 kB   4 rows  http://127.0.0.1:20471/shelf/2');
INSERT INTO "events" VALUES(21,1,1.79564341778098654749e+09,'INFO','n1','page',9,'200    2 ms    0 kB   1 row   http://127.0.0.1:20471/book/1-0');
INSERT INTO "events" VALUES(22,1,1.79564341778122758862e+09,'INFO','n1','page',10,'200    2 ms    0 kB   1 row   http://127.0.0.1:20471/book/1-1');
INSERT INTO "events" VALUES(23,1,1.79564341778191876412e+09,'INFO','n1','page',11,'200    3 ms    0 kB   1 row   http://127.0.0.1:20471/book/1-2');
INSERT INTO "events" VALUES(24,1,1.79564341778269338607e+09,'INFO','n1','page',12,'200    1 ms    0 kB   1 row   http://127.0.0.1:20471/book/1-3');
INSERT INTO "events" VALUES(25,1,1.79564341778290319446e+09,'WARNING','n1','page',5,'blocked: HTTP 403; attempt 3 after the other pages  http://127.0.0.1:20471/book/0-1');
INSERT INTO "events" VALUES(26,1,1.79564341778904843329e+09,'INFO','n1','page',13,'200    1 ms    0 kB   1 row   http://127.0.0.1:20471/book/2-0');
INSERT INTO "events" VALUES(27,1,1.79564341778927016261e+09,'INFO','n1','page',14,'200    1 ms    0 kB   1 row   http://127.0.0.1:20471/book/2-1');
INSERT INTO "events" VALUES(28,1,1.79564341778949832914e+09,'INFO','n1','page',15,'200    1 ms    0 kB   1 row   http://127.0.0.1:20471/book/2-2');
INSERT INTO "events" VALUES(29,1,1.79564341778993844986e+09,'INFO','n1','page',16,'200    1 ms    0 kB   1 row   http://127.0.0.1:20471/book/2-3');
INSERT INTO "events" VALUES(30,1,1.79564341779008245468e+09,'WARNING','n1','page',5,'blocked: HTTP 403; attempt 4 after the other pages  http://127.0.0.1:20471/book/0-1');
INSERT INTO "events" VALUES(31,1,1.79564341779312157624e+09,'ERROR','n1','page',5,'FAILED: blocked: HTTP 403 (4 attempts)  http://127.0.0.1:20471/book/0-1');
INSERT INTO "events" VALUES(32,1,1.79564341779501724241e+09,'INFO','supervisor','state',NULL,'run DRAINING');
INSERT INTO "events" VALUES(33,1,1.79564341779698872572e+09,'INFO','supervisor','stage',NULL,'CRAWL_COMPLETE');
INSERT INTO "events" VALUES(34,1,1.79564341779799461367e+09,'INFO','supervisor','stage',NULL,'STOPPING_NODES_GRACEFUL');
INSERT INTO "events" VALUES(35,1,1.79564341780398941035e+09,'INFO','n2','state',NULL,'n2 TERMINATED RUNNER');
INSERT INTO "events" VALUES(36,1,1.79564341780473375317e+09,'INFO','supervisor','node',NULL,'n2 stopped gracefully');
INSERT INTO "events" VALUES(37,1,1.79564341780700683593e+09,'INFO','n1','state',NULL,'n1 SHUTDOWN RUNNER');
INSERT INTO "events" VALUES(38,1,1.79564341781300163274e+09,'INFO','n1','state',NULL,'n1 TERMINATED RUNNER');
INSERT INTO "events" VALUES(39,1,1.79564341781313920021e+09,'INFO','supervisor','node',NULL,'n1 stopped gracefully');
INSERT INTO "events" VALUES(40,1,1.79564341781300163274e+09,'INFO','supervisor','stage',NULL,'STOPPING_APPENDER_GRACEFUL');
INSERT INTO "events" VALUES(41,1,1.79564341782000207897e+09,'INFO','supervisor','stage',NULL,'RELEASING_LOCK');
INSERT INTO "events" VALUES(42,1,1.79564341782000207897e+09,'INFO','supervisor','state',NULL,'run DONE');
INSERT INTO "events" VALUES(43,1,1.79564341782069587707e+09,'INFO','supervisor','run',NULL,'run 9b0d8d DONE');
INSERT INTO "events" VALUES(44,1,1.79564341782301950456e+09,'INFO','supervisor','stage',NULL,'SHUTDOWN_COMPLETE');
INSERT INTO "events" VALUES(45,2,1.79564341822958135602e+09,'INFO','supervisor','run',NULL,'run 65a0f7 started, defs v1');
INSERT INTO "events" VALUES(46,2,1.79564341824301338191e+09,'INFO','supervisor','stage',NULL,'CHECK_LOCK');
INSERT INTO "events" VALUES(47,2,1.79564341824401903146e+09,'INFO','supervisor','stage',NULL,'START_APPENDER');
INSERT INTO "events" VALUES(48,2,1.79564341824900817871e+09,'INFO','supervisor','stage',NULL,'START_NODES');
INSERT INTO "events" VALUES(49,2,1.79564341825299119944e+09,'INFO','n1','state',NULL,'n1 STARTING RUNNER');
INSERT INTO "events" VALUES(50,2,1795643418.25419,'INFO','supervisor','node',NULL,'n1 started as RUNNER');
INSERT INTO "events" VALUES(51,2,1.79564341827701044081e+09,'INFO','n2','state',NULL,'n2 STARTING RUNNER');
INSERT INTO "events" VALUES(52,2,1.79564341827793121338e+09,'INFO','supervisor','node',NULL,'n2 started as RUNNER');
INSERT INTO "events" VALUES(53,2,1.79564341829298281666e+09,'INFO','supervisor','stage',NULL,'RUNNING');
INSERT INTO "events" VALUES(54,2,1.79564341831398463248e+09,'INFO','supervisor','state',NULL,'run SEEDING');
INSERT INTO "events" VALUES(55,2,1.79564341838901948928e+09,'INFO','supervisor','state',NULL,'run READY');
INSERT INTO "events" VALUES(56,2,1.79564341865001177783e+09,'INFO','n1','state',NULL,'n1 DONE RUNNER');
INSERT INTO "events" VALUES(57,2,1.79564341868444728852e+09,'INFO','n1','page',17,'200    3 ms    0 kB   4 rows  http://127.0.0.1:20471/shelf/0');
INSERT INTO "events" VALUES(58,2,1.79564341869590306279e+09,'INFO','n1','page',21,'SKIPPED: robots.txt disallows it (line 2: Disallow: /book/0-2)  http://127.0.0.1:20471/book/0-2');
INSERT INTO "events" VALUES(59,2,1.79564341869717979428e+09,'INFO','n1','page',18,'200    2 ms    0 kB   4 rows  http://127.0.0.1:20471/shelf/1');
INSERT INTO "events" VALUES(60,2,1.79564341869973063472e+09,'INFO','n1','page',19,'200    4 ms    0 kB   1 row   http://127.0.0.1:20471/book/0-0');
INSERT INTO "events" VALUES(61,2,1.79564341870005416863e+09,'WARNING','n1','page',20,'blocked: HTTP 403; attempt 2 after the other pages  http://127.0.0.1:20471/book/0-1');
INSERT INTO "events" VALUES(62,2,1.79564341870032167427e+09,'INFO','n1','page',22,'200    4 ms    0 kB   1 row   http://127.0.0.1:20471/book/0-3');
INSERT INTO "events" VALUES(63,2,1.79564341870831131937e+09,'WARNING','n1','page',24,'HTTP 500; attempt 2 in 0.6 s  http://127.0.0.1:20471/book/1-0');
INSERT INTO "events" VALUES(64,2,1.79564341870871901516e+09,'INFO','n1','page',26,'200    1 ms    0 kB   1 row   http://127.0.0.1:20471/book/1-2');
INSERT INTO "events" VALUES(65,2,1.79564341870970559122e+09,'INFO','n1','page',27,'200    1 ms    0 kB   1 row   http://127.0.0.1:20471/book/1-3');
INSERT INTO "events" VALUES(66,2,1.79564341870986771587e+09,'WARNING','n1','page',20,'blocked: HTTP 403; attempt 3 after the other pages  http://127.0.0.1:20471/book/0-1');
INSERT INTO "events" VALUES(67,2,1.79564341871201086048e+09,'INFO','n2','state',NULL,'n2 DONE RUNNER');
INSERT INTO "events" VALUES(68,2,1.79564341871305513387e+09,'WARNING','n1','page',20,'blocked: HTTP 403; attempt 4 after the other pages  http://127.0.0.1:20471/book/0-1');
INSERT INTO "events" VALUES(69,2,1.79564341876629090305e+09,'ERROR','n1','page',20,'FAILED: blocked: HTTP 403 (4 attempts)  http://127.0.0.1:20471/book/0-1');
INSERT INTO "events" VALUES(70,2,1.79564341901166129112e+09,'INFO','supervisor','command',NULL,'cancel: cancelling; 2 jobs in flight have 1 s to finish');
INSERT INTO "events" VALUES(71,2,1.79564341901198911669e+09,'INFO','supervisor','stage',NULL,'INTERRUPTED');
INSERT INTO "events" VALUES(72,2,1.79564341901299500464e+09,'INFO','supervisor','stage',NULL,'STOPPING_NODES_GRACEFUL');
INSERT INTO "events" VALUES(73,2,1.79564341901701831813e+09,'INFO','n2','state',NULL,'n2 SHUTDOWN RUNNER');
INSERT INTO "events" VALUES(74,2,1.79564341902200722694e+09,'INFO','n2','state',NULL,'n2 TERMINATED RUNNER');
INSERT INTO "events" VALUES(75,2,1.79564341902260017399e+09,'INFO','supervisor','node',NULL,'n2 stopped gracefully');
INSERT INTO "events" VALUES(76,2,1.79564342002383112908e+09,'WARNING','n1','page',23,'INCOMPLETE http://127.0.0.1:20471/shelf/2: cancelled after 1 s of grace; in progress for 1.3 s');
INSERT INTO "events" VALUES(77,2,1.79564342002402520183e+09,'WARNING','n1','page',25,'INCOMPLETE http://127.0.0.1:20471/book/1-1: cancelled after 1 s of grace; in progress for 1.3 s');
INSERT INTO "events" VALUES(78,2,1.7956434200399861335e+09,'INFO','n1','state',NULL,'n1 SHUTDOWN RUNNER');
INSERT INTO "events" VALUES(79,2,1.79564342004799246781e+09,'INFO','n1','state',NULL,'n1 TERMINATED RUNNER');
INSERT INTO "events" VALUES(80,2,1.79564342004909563064e+09,'INFO','supervisor','node',NULL,'n1 stopped gracefully');
INSERT INTO "events" VALUES(81,2,1795643420.05101,'INFO','supervisor','stage',NULL,'STOPPING_APPENDER_GRACEFUL');
INSERT INTO "events" VALUES(82,2,1.79564342005801057819e+09,'INFO','supervisor','stage',NULL,'RELEASING_LOCK');
INSERT INTO "events" VALUES(83,2,1.79564342005801057819e+09,'INFO','supervisor','state',NULL,'run CANCELLED');
INSERT INTO "events" VALUES(84,2,1.79564342005886602403e+09,'WARNING','supervisor','run',NULL,'run 65a0f7 CANCELLED');
INSERT INTO "events" VALUES(85,2,1.79564342005998182297e+09,'INFO','supervisor','stage',NULL,'SHUTDOWN_COMPLETE');
CREATE TABLE failures (                             -- the failed jobs of a sequence by reason; triggers count them
    sequence INTEGER NOT NULL REFERENCES sequences(id),
    reason   TEXT NOT NULL,
    jobs     INTEGER NOT NULL,
    PRIMARY KEY (sequence, reason)
) WITHOUT ROWID;
INSERT INTO "failures" VALUES(3,'blocked: HTTP 403 (4 attempts)',1);
INSERT INTO "failures" VALUES(5,'blocked: HTTP 403 (4 attempts)',1);
CREATE TABLE field_health (
    id       INTEGER PRIMARY KEY,                   -- the order of the fields
    run      INTEGER NOT NULL REFERENCES runs(seq),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    field    TEXT NOT NULL,
    defaults INTEGER NOT NULL,                      -- 1: it has a default, and may be missing
    missing  INTEGER NOT NULL DEFAULT 0,            -- in so many records, before its default
    UNIQUE (run, data_def, field)
);
INSERT INTO "field_health" VALUES(1,1,2,'title',0,0);
INSERT INTO "field_health" VALUES(2,1,2,'price',0,0);
INSERT INTO "field_health" VALUES(3,1,1,'isbn',0,0);
INSERT INTO "field_health" VALUES(4,1,3,'x',0,0);
INSERT INTO "field_health" VALUES(5,1,3,'y',0,0);
INSERT INTO "field_health" VALUES(6,2,2,'title',0,0);
INSERT INTO "field_health" VALUES(7,2,2,'price',0,0);
INSERT INTO "field_health" VALUES(8,2,1,'isbn',0,0);
INSERT INTO "field_health" VALUES(9,2,3,'x',0,0);
INSERT INTO "field_health" VALUES(10,2,3,'y',0,0);
CREATE TABLE health (                               -- of each version of a dataDef that has fields
    run      INTEGER NOT NULL REFERENCES runs(seq),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    pages    INTEGER NOT NULL DEFAULT 0,            -- it was applied to
    records  INTEGER NOT NULL DEFAULT 0,            -- that became rows or were rejected
    rejected INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, data_def)
) WITHOUT ROWID;
INSERT INTO "health" VALUES(1,1,10,10,0);
INSERT INTO "health" VALUES(1,2,3,12,0);
INSERT INTO "health" VALUES(1,3,10,0,0);
INSERT INTO "health" VALUES(2,1,4,4,0);
INSERT INTO "health" VALUES(2,2,2,8,0);
INSERT INTO "health" VALUES(2,3,4,0,0);
CREATE TABLE host_answers (
    host    INTEGER NOT NULL REFERENCES hosts(id),
    status  INTEGER NOT NULL,                       -- 0: a request without an answer
    answers INTEGER NOT NULL,
    PRIMARY KEY (host, status)
) WITHOUT ROWID;
INSERT INTO "host_answers" VALUES(1,200,13);
INSERT INTO "host_answers" VALUES(1,403,4);
INSERT INTO "host_answers" VALUES(2,200,6);
INSERT INTO "host_answers" VALUES(2,403,4);
INSERT INTO "host_answers" VALUES(2,500,1);
CREATE TABLE host_latencies (                       -- histograms of hosts that answer: engine.model.latency
    host    INTEGER NOT NULL REFERENCES hosts(id),
    bucket  INTEGER NOT NULL,
    answers INTEGER NOT NULL,
    PRIMARY KEY (host, bucket)
) WITHOUT ROWID;
INSERT INTO "host_latencies" VALUES(1,0,7);
INSERT INTO "host_latencies" VALUES(1,2,2);
INSERT INTO "host_latencies" VALUES(1,3,1);
INSERT INTO "host_latencies" VALUES(1,5,1);
INSERT INTO "host_latencies" VALUES(1,9,1);
INSERT INTO "host_latencies" VALUES(1,10,1);
INSERT INTO "host_latencies" VALUES(1,12,2);
INSERT INTO "host_latencies" VALUES(1,15,2);
INSERT INTO "host_latencies" VALUES(2,0,6);
INSERT INTO "host_latencies" VALUES(2,7,1);
INSERT INTO "host_latencies" VALUES(2,14,1);
INSERT INTO "host_latencies" VALUES(2,16,1);
INSERT INTO "host_latencies" VALUES(2,17,2);
CREATE TABLE host_speeds (                          -- of a host, for viewers; hosts has wide rows
    host        INTEGER PRIMARY KEY REFERENCES hosts(id),
    run         INTEGER NOT NULL REFERENCES runs(seq),
    bytes       INTEGER NOT NULL DEFAULT 0,         -- of the bodies it sent; a kill may lose a second
    measured_at REAL NOT NULL DEFAULT 0,            -- boot-time second of the last flush of its latency
    p50         REAL,                               -- seconds of its answers, in the last minute it had some
    p95         REAL,
    recent_p50  TEXT,                               -- JSON: of each of the last intervals, null: no answer
    eta         REAL                                -- estimated seconds until its pages have ended
);
INSERT INTO "host_speeds" VALUES(1,1,1569,72215.264488397,1.16453226941835505381e-03,3.53863320530205813577e-03,'[0.001164532269418355]',NULL);
INSERT INTO "host_speeds" VALUES(2,2,927,72217.281044938,9.16666666666666649608e-04,4.26247242472924722095e-03,'[0.0009166666666666666]',NULL);
CREATE TABLE hosts (
    id            INTEGER PRIMARY KEY,
    run           INTEGER NOT NULL REFERENCES runs(seq),
    key           TEXT NOT NULL,                   -- name:port
    origin        TEXT NOT NULL,
    delay         REAL NOT NULL,
    concurrency   INTEGER NOT NULL,
    crawl_delay   REAL NOT NULL DEFAULT 0,         -- from its robots.txt
    next_at       REAL,
    backoff_until REAL,
    strikes       INTEGER NOT NULL DEFAULT 0,      -- consecutive answers 429 or 503
    throttled     INTEGER NOT NULL DEFAULT 0,
    errors        INTEGER NOT NULL DEFAULT 0,
    robots        TEXT NOT NULL CHECK (robots IN ('OFF','WANTED','KNOWN')),
    robots_status INTEGER,
    robots_text   TEXT, named INTEGER NOT NULL DEFAULT 0, robots_fetched_at REAL, robots_agent TEXT, throttle INTEGER NOT NULL DEFAULT 0, pace REAL NOT NULL DEFAULT 1, least_pace REAL NOT NULL DEFAULT 0, records INTEGER NOT NULL DEFAULT 0, records_rejected INTEGER NOT NULL DEFAULT 0, gone INTEGER NOT NULL DEFAULT 0, blocked INTEGER NOT NULL DEFAULT 0, answers INTEGER NOT NULL DEFAULT 1, operator_delay REAL, operator_concurrency INTEGER, paused INTEGER NOT NULL DEFAULT 0,
    UNIQUE (run, key)
);
INSERT INTO "hosts" VALUES(1,1,'127.0.0.1:20471','http://127.0.0.1:20471',0.0,4,0.0,NULL,NULL,0,0,0,'KNOWN',200,'User-agent: *
Disallow: /book/0-2
',1,1.79564341774969577795e+09,'crawl-console',0,1.0,0.0,22,0,0,4,132096,NULL,NULL,0);
INSERT INTO "hosts" VALUES(2,2,'127.0.0.1:20471','http://127.0.0.1:20471',0.0,4,0.0,NULL,NULL,0,0,1,'KNOWN',200,'User-agent: *
Disallow: /book/0-2
',1,1.79564341774969577795e+09,'crawl-console',0,1.0,0.0,12,0,0,4,2064,NULL,NULL,0);
CREATE TABLE jobs (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: a node may still hold a deleted job
    run        INTEGER NOT NULL REFERENCES runs(seq),
    sequence   INTEGER NOT NULL REFERENCES sequences(id),
    state      TEXT NOT NULL DEFAULT 'READY'
        CHECK (state IN ('READY','TAKEN','DONE','FAILED','SKIPPED','INCOMPLETE')),
    priority   INTEGER NOT NULL DEFAULT 0,
    not_before REAL,                               -- null: due
    lease      INTEGER,
    node       INTEGER,
    attempts   INTEGER NOT NULL DEFAULT 0,
    crashes    INTEGER NOT NULL DEFAULT 0,
    hops       INTEGER NOT NULL DEFAULT 0,
    depth      INTEGER NOT NULL DEFAULT 0,
    origin     TEXT NOT NULL CHECK (origin IN ('locator','link')),
    locator    INTEGER REFERENCES locators(id),
    root       INTEGER,                            -- the locator's job from which this one descends
    document   INTEGER,
    defs       INTEGER,                            -- the def version its rows were made with
    page       INTEGER,                            -- for a re-extraction: the job of the page
    linked     INTEGER,                            -- the newest def version under which a page links to it
    url        TEXT NOT NULL,
    target     TEXT,                               -- the URL to which redirects led so far
    reason     TEXT,
    changed_at REAL,                               -- last change of state; null: unchanged since it was created
    page_key   BLOB,                               -- for a plain locator: the identity of a link to its page
    identity   BLOB NOT NULL, may_leave_host INTEGER NOT NULL DEFAULT 1, parent INTEGER, link_request TEXT, carried TEXT, fresh_since REAL,
    CHECK ((state = 'TAKEN') = (lease IS NOT NULL)),
    UNIQUE (run, identity)
);
INSERT INTO "jobs" VALUES(1,1,1,'DONE',0,NULL,NULL,1,1,0,0,0,'link',NULL,NULL,NULL,1,NULL,NULL,'http://127.0.0.1:20471/robots.txt',NULL,NULL,1.79564341774999642374e+09,NULL,X'473B7D6874471A4F0F8A220B1A6B4F81',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(2,1,2,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',1,NULL,1,1,NULL,NULL,'http://127.0.0.1:20471/shelf/0',NULL,NULL,1.79564341775900864601e+09,X'2EE41D44E58435180923FCCF4A50E58B',X'6F5245139DF465DAC325A04C4E4DF575',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(3,1,2,'DONE',0,NULL,NULL,1,1,0,0,1,'link',1,2,2,1,NULL,NULL,'http://127.0.0.1:20471/shelf/1',NULL,NULL,1.79564341777401566507e+09,NULL,X'D1CEB96F4B2EE61D78E1B2796192D1D2',0,2,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(4,1,3,'DONE',0,NULL,NULL,1,1,0,0,1,'link',1,2,3,1,NULL,NULL,'http://127.0.0.1:20471/book/0-0',NULL,NULL,1.79564341777401566507e+09,NULL,X'D2E1C059493AD88A128D00CD229C2C08',0,2,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(5,1,3,'FAILED',-12884901888,NULL,NULL,1,4,0,0,1,'link',1,2,14,1,NULL,NULL,'http://127.0.0.1:20471/book/0-1',NULL,'blocked: HTTP 403 (4 attempts)',1.79564341779300570486e+09,NULL,X'2FA23FC64435EE6F65FC5B9CE49E0342',0,2,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(6,1,3,'SKIPPED',0,NULL,NULL,1,0,0,0,1,'link',1,2,NULL,1,NULL,NULL,'http://127.0.0.1:20471/book/0-2',NULL,'robots.txt disallows it (line 2: Disallow: /book/0-2)',1.79564341777401566507e+09,NULL,X'74BB2143B0BEE80B3A9C34021ECD3644',0,2,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(7,1,3,'DONE',0,NULL,NULL,1,1,0,0,1,'link',1,2,4,1,NULL,NULL,'http://127.0.0.1:20471/book/0-3',NULL,NULL,1.79564341777401566507e+09,NULL,X'440035C8FCB5241A672CC4AD57844DD2',0,2,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(8,1,2,'DONE',0,NULL,NULL,1,1,0,0,2,'link',1,2,5,1,NULL,NULL,'http://127.0.0.1:20471/shelf/2',NULL,NULL,1.79564341778499937055e+09,NULL,X'D393C540119B626481F5D221F9379C37',0,3,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(9,1,3,'DONE',0,NULL,NULL,1,1,0,0,2,'link',1,2,6,1,NULL,NULL,'http://127.0.0.1:20471/book/1-0',NULL,NULL,1.79564341778499937055e+09,NULL,X'9546B59B1766EDAE3CF4B6DD9D2EC867',0,3,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(10,1,3,'DONE',0,NULL,NULL,1,1,0,0,2,'link',1,2,7,1,NULL,NULL,'http://127.0.0.1:20471/book/1-1',NULL,NULL,1.79564341778499937055e+09,NULL,X'9B457BFB4A89EFD5920C4C919C2B8B3C',0,3,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(11,1,3,'DONE',0,NULL,NULL,1,1,0,0,2,'link',1,2,8,1,NULL,NULL,'http://127.0.0.1:20471/book/1-2',NULL,NULL,1.79564341778499937055e+09,NULL,X'173240C7CD19DFBA7F0EE5D2E3B04456',0,3,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(12,1,3,'DONE',0,NULL,NULL,1,1,0,0,2,'link',1,2,9,1,NULL,NULL,'http://127.0.0.1:20471/book/1-3',NULL,NULL,1.79564341778499937055e+09,NULL,X'C4393AE0518B64A790B43A22792D881E',0,3,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(13,1,3,'DONE',0,NULL,NULL,1,1,0,0,3,'link',1,2,10,1,NULL,NULL,'http://127.0.0.1:20471/book/2-0',NULL,NULL,1.79564341778998827936e+09,NULL,X'54428A9B565826F99101CC37D3E09ACE',0,8,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(14,1,3,'DONE',0,NULL,NULL,1,1,0,0,3,'link',1,2,11,1,NULL,NULL,'http://127.0.0.1:20471/book/2-1',NULL,NULL,1.79564341778998827936e+09,NULL,X'7E63CED45B5190C988DF1C039B44363C',0,8,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(15,1,3,'DONE',0,NULL,NULL,1,1,0,0,3,'link',1,2,12,1,NULL,NULL,'http://127.0.0.1:20471/book/2-2',NULL,NULL,1.79564341778998827936e+09,NULL,X'3E6AA680C86D152D3CB2940722E3EBF9',0,8,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(16,1,3,'DONE',0,NULL,NULL,1,1,0,0,3,'link',1,2,13,1,NULL,NULL,'http://127.0.0.1:20471/book/2-3',NULL,NULL,1.79564341778998827936e+09,NULL,X'7FBE7996E83F5B8BED1E7BA862CECFBE',0,8,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(17,2,4,'DONE',0,NULL,NULL,3,1,0,0,0,'locator',2,NULL,15,1,NULL,NULL,'http://127.0.0.1:20471/shelf/0',NULL,NULL,1795643418.68598,X'2EE41D44E58435180923FCCF4A50E58B',X'6F5245139DF465DAC325A04C4E4DF575',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(18,2,4,'DONE',0,NULL,NULL,3,1,0,0,1,'link',2,17,16,1,NULL,NULL,'http://127.0.0.1:20471/shelf/1',NULL,NULL,1.79564341870299863821e+09,NULL,X'D1CEB96F4B2EE61D78E1B2796192D1D2',0,17,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(19,2,5,'DONE',0,NULL,NULL,3,1,0,0,1,'link',2,17,17,1,NULL,NULL,'http://127.0.0.1:20471/book/0-0',NULL,NULL,1.79564341870299863821e+09,NULL,X'D2E1C059493AD88A128D00CD229C2C08',0,17,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(20,2,5,'FAILED',-12884901888,NULL,NULL,3,4,0,0,1,'link',2,17,21,1,NULL,NULL,'http://127.0.0.1:20471/book/0-1',NULL,'blocked: HTTP 403 (4 attempts)',1.79564341881701946255e+09,NULL,X'2FA23FC64435EE6F65FC5B9CE49E0342',0,17,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(21,2,5,'SKIPPED',0,NULL,NULL,3,0,0,0,1,'link',2,17,NULL,1,NULL,NULL,'http://127.0.0.1:20471/book/0-2',NULL,'robots.txt disallows it (line 2: Disallow: /book/0-2)',1.79564341870299863821e+09,NULL,X'74BB2143B0BEE80B3A9C34021ECD3644',0,17,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(22,2,5,'DONE',0,NULL,NULL,3,1,0,0,1,'link',2,17,18,1,NULL,NULL,'http://127.0.0.1:20471/book/0-3',NULL,NULL,1.79564341870299863821e+09,NULL,X'440035C8FCB5241A672CC4AD57844DD2',0,17,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(23,2,4,'INCOMPLETE',0,NULL,NULL,3,0,0,0,2,'link',2,17,NULL,1,NULL,NULL,'http://127.0.0.1:20471/shelf/2',NULL,'cancelled after 1 s of grace; in progress for 1.3 s',1.79564342002501940729e+09,NULL,X'D393C540119B626481F5D221F9379C37',0,18,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(24,2,5,'READY',0,NULL,NULL,3,1,0,0,2,'link',2,17,NULL,1,NULL,NULL,'http://127.0.0.1:20471/book/1-0',NULL,'HTTP 500',1.79564341870999932284e+09,NULL,X'9546B59B1766EDAE3CF4B6DD9D2EC867',0,18,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(25,2,5,'INCOMPLETE',0,NULL,NULL,3,0,0,0,2,'link',2,17,NULL,1,NULL,NULL,'http://127.0.0.1:20471/book/1-1',NULL,'cancelled after 1 s of grace; in progress for 1.3 s',1.79564342002501940729e+09,NULL,X'9B457BFB4A89EFD5920C4C919C2B8B3C',0,18,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(26,2,5,'DONE',0,NULL,NULL,3,1,0,0,2,'link',2,17,19,1,NULL,NULL,'http://127.0.0.1:20471/book/1-2',NULL,NULL,1.79564341870999932284e+09,NULL,X'173240C7CD19DFBA7F0EE5D2E3B04456',0,18,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(27,2,5,'DONE',0,NULL,NULL,3,1,0,0,2,'link',2,17,20,1,NULL,NULL,'http://127.0.0.1:20471/book/1-3',NULL,NULL,1.79564341870999932284e+09,NULL,X'C4393AE0518B64A790B43A22792D881E',0,18,NULL,NULL,NULL);
CREATE TABLE locators (
    id      INTEGER PRIMARY KEY,
    run     INTEGER NOT NULL REFERENCES runs(seq),
    grp     TEXT NOT NULL,
    name    TEXT NOT NULL,
    request TEXT NOT NULL,                         -- JSON: method, headers, cookies, body, content type
    UNIQUE (run, grp, name, request)
);
INSERT INTO "locators" VALUES(1,1,'shelves','start','{"method":"GET","headers":[],"cookies":[],"body":null,"content_type":null}');
INSERT INTO "locators" VALUES(2,2,'shelves','start','{"method":"GET","headers":[],"cookies":[],"body":null,"content_type":null}');
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO "meta" VALUES('boot','00000000-0000-0000-0000-000000000000 72217.523568831');
INSERT INTO "meta" VALUES('defs_problems','[]');
INSERT INTO "meta" VALUES('defs_saved','null');
INSERT INTO "meta" VALUES('helpers','[]');
INSERT INTO "meta" VALUES('sealed_run','2');
INSERT INTO "meta" VALUES('secret_salt','5ef72430f385eaa245d426276947bd86');
INSERT INTO "meta" VALUES('settings','{"nodes":{"least":2,"most":2},"node_wait":5.0,"node_idle":60.0,"backups":0,"concurrency":32,"batch":32,"grace":1.0,"stop_within":null,"node_drain":1800.0,"file_drain":300.0,"send_drain":15.0,"heart_timeout":1.0,"start_timeout":20.0,"deadline":30.0,"max_attempts":4,"max_body":10000000,"max_redirects":10,"seed_retries":3,"max_failed":0,"min_rows":null,"max_rejected":null,"robots":true,"user_agent":"crawl-console/0.1.0","contact":null,"meta_nofollow":true,"meta_noindex":false,"throttle":"off","host_clock":true,"delay":0.0,"host_concurrency":8,"live":"PT0S","documents":true,"on_reload":"reextract","on_save":"publish","refresh":2.0,"parse_limit":5.0,"parse_memory":400000000,"max_links":50000,"cpu_affinity":"auto","max_pages":null,"max_time":null,"min_free":64000000,"helpers":null,"on_start":null,"on_end":null,"on_alarm":null,"base_url":null,"allow_file":false,"default_steps":"jsoupDefault","fact_blank":"-","fact_not_found":"not found","date_time_pattern":null,"run_time":null}');
CREATE TABLE metrics (
    run           INTEGER NOT NULL REFERENCES runs(seq),
    grp           TEXT NOT NULL,                   -- '' for robots.txt
    fetches       INTEGER NOT NULL DEFAULT 0,      -- complete responses
    fetch_seconds REAL NOT NULL DEFAULT 0,         -- sum over the fetches
    bytes         INTEGER NOT NULL DEFAULT 0,      -- of their bodies, as sent
    retries       INTEGER NOT NULL DEFAULT 0, noindex INTEGER NOT NULL DEFAULT 0, requests INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, grp)
) WITHOUT ROWID;
INSERT INTO "metrics" VALUES(1,'',1,7.78123299824073910713e-03,34,0,0,0);
INSERT INTO "metrics" VALUES(1,'books',14,2.33888769871555268764e-02,578,3,0,14);
INSERT INTO "metrics" VALUES(1,'shelves',3,3.38292401283979415893e-03,991,0,0,3);
INSERT INTO "metrics" VALUES(2,'books',9,1.59822269779397174715e-02,241,4,0,10);
INSERT INTO "metrics" VALUES(2,'shelves',2,5.0239379925187677145e-03,686,0,0,3);
CREATE TABLE nodes (
    epoch      INTEGER PRIMARY KEY AUTOINCREMENT,  -- global, never reused
    run        INTEGER NOT NULL REFERENCES runs(seq),
    supervisor INTEGER NOT NULL REFERENCES supervisors(epoch),
    number     INTEGER NOT NULL,
    state      TEXT NOT NULL DEFAULT 'STARTING'
        CHECK (state IN ('STARTING','READY','DONE','STANDBY','DRAINING','SHUTDOWN','TERMINATED','DEAD','FAILED')),
    role       TEXT NOT NULL DEFAULT 'INITIAL'
        CHECK (role IN ('INITIAL','RUNNER','BACKUP_RUNNER','DEAD_RUNNER','DEAD_BACKUP_RUNNER')),
    heart      TEXT NOT NULL DEFAULT 'NEWBORN'
        CHECK (heart IN ('NEWBORN','HEALTHY','ARRHYTHMIA','ASYSTOLE','APPARENT_DEATH')),
    identity   TEXT,
    pid        INTEGER,
    replaces   INTEGER,
    started_at REAL NOT NULL,
    ended_at   REAL,
    reason     TEXT,
    beat_age   REAL,
    in_flight  INTEGER NOT NULL DEFAULT 0,
    done       INTEGER NOT NULL DEFAULT 0,
    failed     INTEGER NOT NULL DEFAULT 0,
    rss        INTEGER NOT NULL DEFAULT 0,
    lag        REAL NOT NULL DEFAULT 0,
    now        TEXT NOT NULL DEFAULT '',
    UNIQUE (run, number)
);
INSERT INTO "nodes" VALUES(1,1,1,1,'TERMINATED','RUNNER','APPARENT_DEATH','00000000-0000-0000-0000-000000000000:28528:7221480',28528,NULL,1.79564341733770799639e+09,1.79564341781303596495e+09,'stopped gracefully',4.7460998757742345333e-05,0,13,1,68571136,0.0,'');
INSERT INTO "nodes" VALUES(2,1,1,2,'TERMINATED','RUNNER','APPARENT_DEATH','00000000-0000-0000-0000-000000000000:28529:7221482',28529,NULL,1.79564341735350966452e+09,1.79564341780435514448e+09,'stopped gracefully',NULL,0,0,0,0,0.0,'');
INSERT INTO "nodes" VALUES(3,2,2,1,'TERMINATED','RUNNER','APPARENT_DEATH','00000000-0000-0000-0000-000000000000:28549:7221572',28549,NULL,1.79564341825369191171e+09,1.79564342004893589014e+09,'stopped gracefully',9.42299957387149333953e-05,0,6,1,68521984,0.0,'');
INSERT INTO "nodes" VALUES(4,2,2,2,'TERMINATED','RUNNER','APPARENT_DEATH','00000000-0000-0000-0000-000000000000:28550:7221574',28550,NULL,1.79564341827753901482e+09,1.79564341902221012116e+09,'stopped gracefully',3.93490045098587870597e-05,0,0,0,65208320,0.0,'');
CREATE TABLE outputs (
    id        INTEGER PRIMARY KEY,
    run       INTEGER NOT NULL REFERENCES runs(seq),
    appender  TEXT NOT NULL,
    type      TEXT NOT NULL,
    data_def  TEXT NOT NULL,
    path      TEXT NOT NULL,                       -- absolute
    settings  TEXT NOT NULL,                       -- JSON: columns, joins, delimiter
    cursor    INTEGER NOT NULL DEFAULT 0,          -- the last row in the file
    bytes     INTEGER NOT NULL DEFAULT 0,          -- durable length of the file
    rows      INTEGER NOT NULL DEFAULT 0,
    inode     INTEGER,
    dirty     INTEGER NOT NULL DEFAULT 0,          -- reasons to rebuild, such as replaced rows at or below the cursor
    pending   TEXT, delivers INTEGER NOT NULL DEFAULT 0, error TEXT,                                -- JSON: inode, cursor, bytes, rows of a rebuilt file not yet renamed
    UNIQUE (run, appender, data_def)
);
INSERT INTO "outputs" VALUES(1,1,'lines','jsonl','book','/kept/data/output/9b0d8d/book.jsonl','{"columns":["isbn","path"],"delimiter":",","joins":{},"types":{"isbn":"str","path":"str"}}',22,630,10,1106883,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(2,1,'lines','jsonl','entry','/kept/data/output/9b0d8d/entry.jsonl','{"columns":["title","price"],"delimiter":",","joins":{},"types":{"price":"decimal","title":"str"}}',22,540,12,1106884,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(3,1,'lines','jsonl','nothing','/kept/data/output/9b0d8d/nothing.jsonl','{"columns":["x","y"],"delimiter":",","joins":{},"types":{"x":"str","y":"str"}}',22,0,0,1106885,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(4,1,'rows','csv','book','/kept/data/output/9b0d8d/book.csv','{"columns":["isbn","path"],"delimiter":",","joins":{},"types":{"isbn":"str","path":"str"}}',22,451,10,1106886,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(5,1,'rows','csv','entry','/kept/data/output/9b0d8d/entry.csv','{"columns":["title","price"],"delimiter":",","joins":{},"types":{"price":"decimal","title":"str"}}',22,349,12,1106887,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(6,1,'rows','csv','nothing','/kept/data/output/9b0d8d/nothing.csv','{"columns":["x","y"],"delimiter":",","joins":{},"types":{"x":"str","y":"str"}}',22,5,0,1106888,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(7,2,'lines','jsonl','book','/kept/data/output/65a0f7/book.jsonl','{"columns":["isbn","path"],"delimiter":",","joins":{},"types":{"isbn":"str","path":"str"}}',34,252,4,1106890,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(8,2,'lines','jsonl','entry','/kept/data/output/65a0f7/entry.jsonl','{"columns":["title","price"],"delimiter":",","joins":{},"types":{"price":"decimal","title":"str"}}',34,360,8,1106891,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(9,2,'lines','jsonl','nothing','/kept/data/output/65a0f7/nothing.jsonl','{"columns":["x","y"],"delimiter":",","joins":{},"types":{"x":"str","y":"str"}}',34,0,0,1106892,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(10,2,'rows','csv','book','/kept/data/output/65a0f7/book.csv','{"columns":["isbn","path"],"delimiter":",","joins":{},"types":{"isbn":"str","path":"str"}}',34,187,4,1106893,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(11,2,'rows','csv','entry','/kept/data/output/65a0f7/entry.csv','{"columns":["title","price"],"delimiter":",","joins":{},"types":{"price":"decimal","title":"str"}}',34,237,8,1106894,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(12,2,'rows','csv','nothing','/kept/data/output/65a0f7/nothing.csv','{"columns":["x","y"],"delimiter":",","joins":{},"types":{"x":"str","y":"str"}}',34,5,0,1106895,0,NULL,0,NULL);
CREATE TABLE page_defs (                           -- the page defs of a group in a version; no row: it lacks the group
    version   INTEGER NOT NULL REFERENCES def_versions(version),
    grp       TEXT NOT NULL,
    hash      TEXT NOT NULL,                       -- of the columns below: pages made with another hash are stale
    data_defs TEXT NOT NULL,                       -- JSON: ordered ids
    follow    TEXT NOT NULL,                       -- hash of the defs besides dataDefs that decide which links are followed
    PRIMARY KEY (version, grp)
) WITHOUT ROWID;
INSERT INTO "page_defs" VALUES(1,'books','dd5e7b0d03420fd2d1b21a729ea9f13d','[1,3]','');
INSERT INTO "page_defs" VALUES(1,'shelves','4ba2cf66d3aacba2f7a29f0c699c20cd','[2]','2406e8f746b021b4b499d87dda036d71');
CREATE TABLE page_health (
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    records  INTEGER NOT NULL,
    rejected INTEGER NOT NULL,
    missing  TEXT,                                  -- JSON: field to records; null: no field was missing
    PRIMARY KEY (job, data_def)
) WITHOUT ROWID;
INSERT INTO "page_health" VALUES(2,2,4,0,NULL);
INSERT INTO "page_health" VALUES(3,2,4,0,NULL);
INSERT INTO "page_health" VALUES(4,1,1,0,NULL);
INSERT INTO "page_health" VALUES(4,3,0,0,NULL);
INSERT INTO "page_health" VALUES(7,1,1,0,NULL);
INSERT INTO "page_health" VALUES(7,3,0,0,NULL);
INSERT INTO "page_health" VALUES(8,2,4,0,NULL);
INSERT INTO "page_health" VALUES(9,1,1,0,NULL);
INSERT INTO "page_health" VALUES(9,3,0,0,NULL);
INSERT INTO "page_health" VALUES(10,1,1,0,NULL);
INSERT INTO "page_health" VALUES(10,3,0,0,NULL);
INSERT INTO "page_health" VALUES(11,1,1,0,NULL);
INSERT INTO "page_health" VALUES(11,3,0,0,NULL);
INSERT INTO "page_health" VALUES(12,1,1,0,NULL);
INSERT INTO "page_health" VALUES(12,3,0,0,NULL);
INSERT INTO "page_health" VALUES(13,1,1,0,NULL);
INSERT INTO "page_health" VALUES(13,3,0,0,NULL);
INSERT INTO "page_health" VALUES(14,1,1,0,NULL);
INSERT INTO "page_health" VALUES(14,3,0,0,NULL);
INSERT INTO "page_health" VALUES(15,1,1,0,NULL);
INSERT INTO "page_health" VALUES(15,3,0,0,NULL);
INSERT INTO "page_health" VALUES(16,1,1,0,NULL);
INSERT INTO "page_health" VALUES(16,3,0,0,NULL);
INSERT INTO "page_health" VALUES(17,2,4,0,NULL);
INSERT INTO "page_health" VALUES(18,2,4,0,NULL);
INSERT INTO "page_health" VALUES(19,1,1,0,NULL);
INSERT INTO "page_health" VALUES(19,3,0,0,NULL);
INSERT INTO "page_health" VALUES(22,1,1,0,NULL);
INSERT INTO "page_health" VALUES(22,3,0,0,NULL);
INSERT INTO "page_health" VALUES(26,1,1,0,NULL);
INSERT INTO "page_health" VALUES(26,3,0,0,NULL);
INSERT INTO "page_health" VALUES(27,1,1,0,NULL);
INSERT INTO "page_health" VALUES(27,3,0,0,NULL);
CREATE TABLE rejections (                          -- rejected records by page, so that they can be subtracted again
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def TEXT NOT NULL,
    records  INTEGER NOT NULL,
    PRIMARY KEY (job, data_def)
) WITHOUT ROWID;
CREATE TABLE result_counts (                        -- all outcomes
    run     INTEGER NOT NULL REFERENCES runs(seq),
    grp     TEXT NOT NULL,
    task    TEXT NOT NULL,
    step    TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('ok','warning','error','not_applicable')),
    code    TEXT NOT NULL,
    results INTEGER NOT NULL,
    PRIMARY KEY (run, grp, task, step, outcome, code)
) WITHOUT ROWID;
CREATE TABLE results (                              -- of steps on pages; of warnings, the first 1,000 of a step and code
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    run      INTEGER NOT NULL REFERENCES runs(seq),
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id), -- the unit of extraction
    grp      TEXT NOT NULL,
    task     TEXT NOT NULL,
    step     TEXT NOT NULL,
    outcome  TEXT NOT NULL CHECK (outcome IN ('ok','warning','error')),
    code     TEXT NOT NULL,
    ms       REAL NOT NULL,
    text     TEXT NOT NULL
);
CREATE TABLE row_counts (
    run      INTEGER NOT NULL REFERENCES runs(seq),
    data_def TEXT NOT NULL,
    rows     INTEGER NOT NULL DEFAULT 0,
    rejected INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (run, data_def)
) WITHOUT ROWID;
INSERT INTO "row_counts" VALUES(1,'book',10,0);
INSERT INTO "row_counts" VALUES(1,'entry',12,0);
INSERT INTO "row_counts" VALUES(2,'book',4,0);
INSERT INTO "row_counts" VALUES(2,'entry',8,0);
CREATE TABLE row_sources (
    document INTEGER NOT NULL,
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    job      INTEGER NOT NULL REFERENCES jobs(id),  -- made its rows of the document without a rejected record
    PRIMARY KEY (document, data_def)
) WITHOUT ROWID;
CREATE TABLE rows (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,    -- readers continue by id: never reused
    run      INTEGER NOT NULL REFERENCES runs(seq),
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    data     TEXT NOT NULL                         -- a JSON object, fields in the order of the defs
, digest BLOB);
INSERT INTO "rows" VALUES(1,1,2,2,'{"title":"Book \"0\", 0; née","price":0.00}',X'A4E5851D6036BBEA4B1FE3F231E9243C');
INSERT INTO "rows" VALUES(2,1,2,2,'{"title":"Book \"0\", 1; née","price":0.01}',X'F6B247751FBB6265A8496CE28445380E');
INSERT INTO "rows" VALUES(3,1,2,2,'{"title":"Book \"0\", 2; née","price":0.02}',X'DB9732BFD380D902D4D581CC8BA54864');
INSERT INTO "rows" VALUES(4,1,2,2,'{"title":"Book \"0\", 3; née","price":0.03}',X'5260A5B2B492000DB65A411632E60F5B');
INSERT INTO "rows" VALUES(5,1,3,2,'{"title":"Book \"1\", 0; née","price":1.00}',X'BC0036FE288E35CE13BE7BCEF4D46CC2');
INSERT INTO "rows" VALUES(6,1,3,2,'{"title":"Book \"1\", 1; née","price":1.01}',X'0451BA479C2DF9FA8555CAEAC938CDEC');
INSERT INTO "rows" VALUES(7,1,3,2,'{"title":"Book \"1\", 2; née","price":1.02}',X'7EC63FB0CB8D208D43879A42C8C6FDB3');
INSERT INTO "rows" VALUES(8,1,3,2,'{"title":"Book \"1\", 3; née","price":1.03}',X'A1F2F57D2F1FCFF8A184866A8F30EC18');
INSERT INTO "rows" VALUES(9,1,4,1,'{"isbn":"ISBN 000-0","path":"http://127.0.0.1:20471/book/0-0"}',X'B5DA377312936B264F460C3B4AFBE919');
INSERT INTO "rows" VALUES(10,1,7,1,'{"isbn":"ISBN 000-3","path":"http://127.0.0.1:20471/book/0-3"}',X'7787783570CEDE5DCD4AE9D6BBBD522E');
INSERT INTO "rows" VALUES(11,1,8,2,'{"title":"Book \"2\", 0; née","price":2.00}',X'7B52FDA02AA55A84F5D97272E948B661');
INSERT INTO "rows" VALUES(12,1,8,2,'{"title":"Book \"2\", 1; née","price":2.01}',X'C31267BA2C8275C10DAE487687BE6351');
INSERT INTO "rows" VALUES(13,1,8,2,'{"title":"Book \"2\", 2; née","price":2.02}',X'D5B91D42E7BB849CE35BDD748721F1B8');
INSERT INTO "rows" VALUES(14,1,8,2,'{"title":"Book \"2\", 3; née","price":2.03}',X'78CAF8BA308F6B98A9D90D5DD3C73DD3');
INSERT INTO "rows" VALUES(15,1,9,1,'{"isbn":"ISBN 001-0","path":"http://127.0.0.1:20471/book/1-0"}',X'F80F369C9BF46DFE915B3B6EE7F12B35');
INSERT INTO "rows" VALUES(16,1,10,1,'{"isbn":"ISBN 001-1","path":"http://127.0.0.1:20471/book/1-1"}',X'6B0A949A799B35A023A4B6B21F98CD9C');
INSERT INTO "rows" VALUES(17,1,11,1,'{"isbn":"ISBN 001-2","path":"http://127.0.0.1:20471/book/1-2"}',X'BC40685A60D3E90E5022B7E6F7320FB7');
INSERT INTO "rows" VALUES(18,1,12,1,'{"isbn":"ISBN 001-3","path":"http://127.0.0.1:20471/book/1-3"}',X'122DDE2407208B7B0BB0C4D85106C4DE');
INSERT INTO "rows" VALUES(19,1,13,1,'{"isbn":"ISBN 002-0","path":"http://127.0.0.1:20471/book/2-0"}',X'F90F6CC041CF1581D5280EEAF6829C5D');
INSERT INTO "rows" VALUES(20,1,14,1,'{"isbn":"ISBN 002-1","path":"http://127.0.0.1:20471/book/2-1"}',X'AFCC64DEB3A405A36045ED55C2B6279D');
INSERT INTO "rows" VALUES(21,1,15,1,'{"isbn":"ISBN 002-2","path":"http://127.0.0.1:20471/book/2-2"}',X'E7EE277E3ADF0126B06DF40971583319');
INSERT INTO "rows" VALUES(22,1,16,1,'{"isbn":"ISBN 002-3","path":"http://127.0.0.1:20471/book/2-3"}',X'961638120B31BEFE8A68D31132551C07');
INSERT INTO "rows" VALUES(23,2,17,2,'{"title":"Book \"0\", 0; née","price":0.00}',X'A4E5851D6036BBEA4B1FE3F231E9243C');
INSERT INTO "rows" VALUES(24,2,17,2,'{"title":"Book \"0\", 1; née","price":0.01}',X'F6B247751FBB6265A8496CE28445380E');
INSERT INTO "rows" VALUES(25,2,17,2,'{"title":"Book \"0\", 2; née","price":0.02}',X'DB9732BFD380D902D4D581CC8BA54864');
INSERT INTO "rows" VALUES(26,2,17,2,'{"title":"Book \"0\", 3; née","price":0.03}',X'5260A5B2B492000DB65A411632E60F5B');
INSERT INTO "rows" VALUES(27,2,18,2,'{"title":"Book \"1\", 0; née","price":1.00}',X'BC0036FE288E35CE13BE7BCEF4D46CC2');
INSERT INTO "rows" VALUES(28,2,18,2,'{"title":"Book \"1\", 1; née","price":1.01}',X'0451BA479C2DF9FA8555CAEAC938CDEC');
INSERT INTO "rows" VALUES(29,2,18,2,'{"title":"Book \"1\", 2; née","price":1.02}',X'7EC63FB0CB8D208D43879A42C8C6FDB3');
INSERT INTO "rows" VALUES(30,2,18,2,'{"title":"Book \"1\", 3; née","price":1.03}',X'A1F2F57D2F1FCFF8A184866A8F30EC18');
INSERT INTO "rows" VALUES(31,2,19,1,'{"isbn":"ISBN 000-0","path":"http://127.0.0.1:20471/book/0-0"}',X'B5DA377312936B264F460C3B4AFBE919');
INSERT INTO "rows" VALUES(32,2,22,1,'{"isbn":"ISBN 000-3","path":"http://127.0.0.1:20471/book/0-3"}',X'7787783570CEDE5DCD4AE9D6BBBD522E');
INSERT INTO "rows" VALUES(33,2,26,1,'{"isbn":"ISBN 001-2","path":"http://127.0.0.1:20471/book/1-2"}',X'BC40685A60D3E90E5022B7E6F7320FB7');
INSERT INTO "rows" VALUES(34,2,27,1,'{"isbn":"ISBN 001-3","path":"http://127.0.0.1:20471/book/1-3"}',X'122DDE2407208B7B0BB0C4D85106C4DE');
CREATE TABLE runs (
    seq              INTEGER PRIMARY KEY AUTOINCREMENT,
    id               TEXT NOT NULL UNIQUE,
    state            TEXT NOT NULL DEFAULT 'NEW'
        CHECK (state IN ('NEW','SEEDING','READY','DRAINING','DONE','CANCELLED','KILLED','FAILED')),
    stage            TEXT NOT NULL DEFAULT 'INIT'
        CHECK (stage IN ('INIT','CHECK_LOCK','ABORT','START_APPENDER','START_NODES','RUNNING','CRAWL_COMPLETE',
                         'INTERRUPTED','STOPPING_NODES_GRACEFUL','STOPPING_APPENDER_GRACEFUL',
                         'STOPPING_NODES_FORCEFUL','STOPPING_APPENDER_FORCEFUL','RELEASING_LOCK','SHUTDOWN_COMPLETE')),
    reason           TEXT,
    created_at       REAL NOT NULL,
    started_at       REAL,
    ended_at         REAL,
    seconds          REAL NOT NULL DEFAULT 0,      -- total time under a supervisor
    defs_version     INTEGER REFERENCES def_versions(version),
    seeded_version   INTEGER,
    base_url         TEXT,
    paused           TEXT,                         -- reason: 'operator', 'disk', 'operator, disk'; null: not paused
    slots            INTEGER NOT NULL DEFAULT 0,   -- concurrency of all runners together
    active_sequences INTEGER NOT NULL DEFAULT 0,   -- sequences with ready or taken jobs to fetch; a trigger counts them
    max_pages        INTEGER,
    takeovers        INTEGER NOT NULL DEFAULT 0,   -- dead nodes whose jobs were requeued
    rates            TEXT NOT NULL DEFAULT '{"pages_per_s":0.0,"rows_per_s":0.0}',
    reextraction     TEXT,                         -- JSON: progress of the search for stale pages; null: none is in progress
    reextracted      INTEGER NOT NULL DEFAULT 0,   -- pages since the last change of the defs
    relinking        INTEGER NOT NULL DEFAULT 0,   -- 1: links changed; record which pages they still lead to
    extract_only     INTEGER NOT NULL DEFAULT 0    -- 1: fetch nothing, lease only re-extractions
, empty_seeds TEXT, baseline TEXT, drops TEXT, missed TEXT, summed INTEGER NOT NULL DEFAULT 0);
INSERT INTO "runs" VALUES(1,'9b0d8d','DONE','SHUTDOWN_COMPLETE',NULL,1.79564341731026268006e+09,1.79564341731026268006e+09,1.79564341782069587707e+09,5.01722517990856431424e-01,1,1,NULL,NULL,0,0,NULL,0,'{"pages_per_s":236.71,"rows_per_s":355.07,"eta":{"seconds":0.0,"bound_by":null,"exact":false,"reason":null},"eta_at":72215.287032503}',NULL,0,0,0,'{}','{"seeds":"1c7914ee87cc8569df65b6b6db39e599","data_defs":{"book":[10,10,{"isbn":10}],"entry":[12,12,{"title":12,"price":12}],"nothing":[0,0,{"x":0,"y":0}]}}',NULL,'[]',1);
INSERT INTO "runs" VALUES(2,'65a0f7','CANCELLED','SHUTDOWN_COMPLETE','cancelled by command',1.79564341822958135602e+09,1.79564341822958135602e+09,1.79564342005886602403e+09,1.82114810400526039302e+00,1,1,NULL,NULL,0,1,NULL,0,'{"pages_per_s":0.0,"rows_per_s":0.0,"eta":{"seconds":1.3,"bound_by":"127.0.0.1:20471","exact":false,"reason":null},"eta_at":72217.523547449}',NULL,0,0,0,'{}',NULL,NULL,'[]',1);
CREATE TABLE samples (
    run    INTEGER NOT NULL REFERENCES runs(seq),
    at     REAL NOT NULL,
    pages  REAL NOT NULL,                          -- per second since the last sample
    rows   REAL NOT NULL,
    failed INTEGER NOT NULL,
    queue  INTEGER NOT NULL, answers TEXT, p50 REAL, p95 REAL,
    PRIMARY KEY (run, at)
) WITHOUT ROWID;
CREATE TABLE sequences (
    id         INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL REFERENCES runs(seq),
    host       INTEGER NOT NULL REFERENCES hosts(id),
    kind       TEXT NOT NULL CHECK (kind IN ('page','robots','sitemap','extract','login','file')),
    grp        TEXT NOT NULL,
    rung_at    REAL,
    paused     INTEGER NOT NULL DEFAULT 0,
    absent     INTEGER NOT NULL DEFAULT 0          -- 1: the defs lack its group; 2: it came back, jobs must be requeued
        CHECK (absent IN (0, 1, 2)),
    max_pages  INTEGER,                            -- of the whole group
    ready      INTEGER NOT NULL DEFAULT 0,         -- due jobs only; those with not_before are 'delayed'
    delayed    INTEGER NOT NULL DEFAULT 0,
    taken      INTEGER NOT NULL DEFAULT 0,
    done       INTEGER NOT NULL DEFAULT 0,
    failed     INTEGER NOT NULL DEFAULT 0,
    skipped    INTEGER NOT NULL DEFAULT 0,
    incomplete INTEGER NOT NULL DEFAULT 0,
    UNIQUE (run, grp, host, kind)
);
INSERT INTO "sequences" VALUES(1,1,1,'robots','',NULL,0,0,NULL,0,0,0,1,0,0,0);
INSERT INTO "sequences" VALUES(2,1,1,'page','shelves',NULL,0,0,NULL,0,0,0,3,0,0,0);
INSERT INTO "sequences" VALUES(3,1,1,'page','books',NULL,0,0,NULL,0,0,0,10,1,1,0);
INSERT INTO "sequences" VALUES(4,2,2,'page','shelves',NULL,0,0,NULL,0,0,0,2,0,0,1);
INSERT INTO "sequences" VALUES(5,2,2,'page','books',72216.764513771,0,0,NULL,1,0,0,4,1,1,1);
CREATE TABLE step_checkpoints (                     -- for the next attempt at a job; deleted when it ends
    job  INTEGER PRIMARY KEY REFERENCES jobs(id),
    text TEXT NOT NULL
);
CREATE TABLE step_values (                          -- what the steps of a run share
    run   INTEGER NOT NULL REFERENCES runs(seq),
    key   TEXT NOT NULL,
    value TEXT NOT NULL,                            -- JSON
    PRIMARY KEY (run, key)
) WITHOUT ROWID;
CREATE TABLE supervisors (
    epoch      INTEGER PRIMARY KEY AUTOINCREMENT,
    identity   TEXT NOT NULL,
    run        INTEGER REFERENCES runs(seq),
    started_at REAL NOT NULL,
    ended_at   REAL
);
INSERT INTO "supervisors" VALUES(1,'00000000-0000-0000-0000-000000000000:28526:7221442',1,1.79564341731026268006e+09,1.79564341782069587707e+09);
INSERT INTO "supervisors" VALUES(2,'00000000-0000-0000-0000-000000000000:28547:7221535',2,1.79564341822958135602e+09,1.79564342005886602403e+09);
CREATE TABLE temporary_documents (                  -- fetched for groups that keep no documents: deleted when their run ends
    run      INTEGER NOT NULL REFERENCES runs(seq),
    document INTEGER NOT NULL,
    grp      TEXT NOT NULL,
    PRIMARY KEY (run, document)
) WITHOUT ROWID;
CREATE TABLE unlisted_results (                     -- of a page, those without a row, so that they can be taken back
    job      INTEGER NOT NULL REFERENCES jobs(id),
    data_def INTEGER NOT NULL REFERENCES data_defs(id),
    grp      TEXT NOT NULL,
    task     TEXT NOT NULL,
    step     TEXT NOT NULL,
    outcome  TEXT NOT NULL CHECK (outcome IN ('warning','not_applicable')),
    code     TEXT NOT NULL,
    results  INTEGER NOT NULL,
    PRIMARY KEY (job, data_def, step, outcome, code)
) WITHOUT ROWID;
CREATE TABLE withdrawals (                          -- deleted rows that an appender may have got
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery INTEGER NOT NULL REFERENCES deliveries(id),
    row      INTEGER NOT NULL,
    newest   INTEGER NOT NULL,                      -- the newest row of all when it was deleted
    counted  INTEGER NOT NULL DEFAULT 1             -- 0: it was never acknowledged
);
CREATE INDEX sequences_host ON sequences(host);
CREATE INDEX sequences_rung ON sequences(run) WHERE rung_at IS NOT NULL;
CREATE INDEX sequences_waiting ON sequences(run) WHERE rung_at IS NULL AND ready > 0 AND paused = 0;
CREATE INDEX sequences_absent ON sequences(run) WHERE absent > 0;
CREATE INDEX sequences_extract ON sequences(run) WHERE kind = 'extract';
CREATE INDEX jobs_due ON jobs(sequence, priority DESC, id) WHERE state = 'READY' AND not_before IS NULL;
CREATE INDEX jobs_waiting ON jobs(run, not_before) WHERE state = 'READY' AND not_before IS NOT NULL;
CREATE INDEX jobs_taken ON jobs(coalesce(target, url)) WHERE state = 'TAKEN';
CREATE INDEX jobs_incomplete ON jobs(run) WHERE state = 'INCOMPLETE';
CREATE INDEX jobs_suspect ON jobs(sequence, priority DESC, id) WHERE state = 'READY' AND crashes > 0;
CREATE INDEX jobs_failed ON jobs(run, coalesce(changed_at, 0)) WHERE state = 'FAILED';
CREATE INDEX jobs_skipped ON jobs(sequence) WHERE state = 'SKIPPED';
CREATE INDEX jobs_located ON jobs(run, page_key) WHERE page_key IS NOT NULL;
CREATE INDEX documents_key ON documents(key);
CREATE INDEX rows_job ON rows(job);
CREATE INDEX commands_new ON commands(supervisor) WHERE state = 'NEW';
CREATE INDEX events_job ON events(job) WHERE job IS NOT NULL;
CREATE TRIGGER runs_told AFTER UPDATE OF state ON runs WHEN OLD.state <> NEW.state BEGIN
    INSERT INTO events (run, at, level, source, kind, text)
    VALUES (NEW.seq, (julianday('now') - 2440587.5) * 86400.0, 'INFO', 'supervisor', 'state', 'run ' || NEW.state);
END;
CREATE TRIGGER runs_staged AFTER UPDATE OF stage ON runs WHEN OLD.stage <> NEW.stage BEGIN
    INSERT INTO events (run, at, level, source, kind, text)
    VALUES (NEW.seq, (julianday('now') - 2440587.5) * 86400.0, 'INFO', 'supervisor', 'stage', NEW.stage);
END;
CREATE TRIGGER nodes_born AFTER INSERT ON nodes BEGIN
    INSERT INTO events (run, at, level, source, kind, text)
    VALUES (NEW.run, (julianday('now') - 2440587.5) * 86400.0, 'INFO', 'n' || NEW.number, 'state',
        'n' || NEW.number || ' ' || NEW.state || ' ' || NEW.role);
END;
CREATE TRIGGER nodes_told AFTER UPDATE OF state, role ON nodes WHEN OLD.state <> NEW.state OR OLD.role <> NEW.role BEGIN
    INSERT INTO events (run, at, level, source, kind, text)
    VALUES (NEW.run, (julianday('now') - 2440587.5) * 86400.0, 'INFO', 'n' || NEW.number, 'state',
        'n' || NEW.number || ' ' || NEW.state || ' ' || NEW.role);
END;
CREATE TRIGGER jobs_born AFTER INSERT ON jobs BEGIN
    UPDATE sequences SET
        ready   = ready   + (NEW.state = 'READY' AND NEW.not_before IS NULL),
        delayed = delayed + (NEW.state = 'READY' AND NEW.not_before IS NOT NULL),
        skipped = skipped + (NEW.state = 'SKIPPED')
    WHERE id = NEW.sequence;
END;
CREATE TRIGGER jobs_changed AFTER UPDATE OF state, not_before ON jobs
WHEN OLD.sequence = NEW.sequence
    AND (OLD.state <> NEW.state OR (OLD.not_before IS NULL) <> (NEW.not_before IS NULL))
BEGIN
    UPDATE sequences SET
        ready      = ready      + (NEW.state = 'READY' AND NEW.not_before IS NULL)
                                - (OLD.state = 'READY' AND OLD.not_before IS NULL),
        delayed    = delayed    + (NEW.state = 'READY' AND NEW.not_before IS NOT NULL)
                                - (OLD.state = 'READY' AND OLD.not_before IS NOT NULL),
        taken      = taken      + (NEW.state = 'TAKEN')      - (OLD.state = 'TAKEN'),
        done       = done       + (NEW.state = 'DONE')       - (OLD.state = 'DONE'),
        failed     = failed     + (NEW.state = 'FAILED')     - (OLD.state = 'FAILED'),
        skipped    = skipped    + (NEW.state = 'SKIPPED')    - (OLD.state = 'SKIPPED'),
        incomplete = incomplete + (NEW.state = 'INCOMPLETE') - (OLD.state = 'INCOMPLETE')
    WHERE id = NEW.sequence;
END;
CREATE TRIGGER jobs_left AFTER UPDATE OF sequence ON jobs WHEN OLD.sequence <> NEW.sequence BEGIN
    UPDATE sequences SET
        ready      = ready      - (OLD.state = 'READY' AND OLD.not_before IS NULL),
        delayed    = delayed    - (OLD.state = 'READY' AND OLD.not_before IS NOT NULL),
        taken      = taken      - (OLD.state = 'TAKEN'),
        done       = done       - (OLD.state = 'DONE'),
        failed     = failed     - (OLD.state = 'FAILED'),
        skipped    = skipped    - (OLD.state = 'SKIPPED'),
        incomplete = incomplete - (OLD.state = 'INCOMPLETE')
    WHERE id = OLD.sequence;
    UPDATE sequences SET
        ready      = ready      + (NEW.state = 'READY' AND NEW.not_before IS NULL),
        delayed    = delayed    + (NEW.state = 'READY' AND NEW.not_before IS NOT NULL),
        taken      = taken      + (NEW.state = 'TAKEN'),
        done       = done       + (NEW.state = 'DONE'),
        failed     = failed     + (NEW.state = 'FAILED'),
        skipped    = skipped    + (NEW.state = 'SKIPPED'),
        incomplete = incomplete + (NEW.state = 'INCOMPLETE')
    WHERE id = NEW.sequence;
END;
CREATE TRIGGER jobs_gone AFTER DELETE ON jobs BEGIN
    UPDATE sequences SET
        ready      = ready      - (OLD.state = 'READY' AND OLD.not_before IS NULL),
        delayed    = delayed    - (OLD.state = 'READY' AND OLD.not_before IS NOT NULL),
        taken      = taken      - (OLD.state = 'TAKEN'),
        done       = done       - (OLD.state = 'DONE'),
        failed     = failed     - (OLD.state = 'FAILED'),
        skipped    = skipped    - (OLD.state = 'SKIPPED'),
        incomplete = incomplete - (OLD.state = 'INCOMPLETE')
    WHERE id = OLD.sequence;
END;
CREATE TRIGGER sequences_active AFTER UPDATE OF ready, taken ON sequences
WHEN (OLD.ready + OLD.taken > 0) <> (NEW.ready + NEW.taken > 0) AND NEW.kind <> 'extract'
BEGIN
    UPDATE runs SET active_sequences = active_sequences + (NEW.ready + NEW.taken > 0) - (OLD.ready + OLD.taken > 0)
    WHERE seq = NEW.run;
END;
CREATE INDEX hosts_robots ON hosts(key) WHERE robots_fetched_at IS NOT NULL;
CREATE INDEX jobs_failed_of ON jobs(sequence) WHERE state = 'FAILED';
CREATE INDEX host_speeds_measured ON host_speeds(run, measured_at);
CREATE INDEX host_speeds_eta ON host_speeds(run) WHERE eta IS NOT NULL;
CREATE TRIGGER failures_added AFTER UPDATE OF state, reason, sequence ON jobs WHEN NEW.state = 'FAILED' BEGIN
    INSERT INTO failures (sequence, reason, jobs) VALUES (NEW.sequence, coalesce(NEW.reason, ''), 1)
    ON CONFLICT (sequence, reason) DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER failures_removed AFTER UPDATE OF state, reason, sequence ON jobs WHEN OLD.state = 'FAILED' BEGIN
    UPDATE failures SET jobs = jobs - 1 WHERE sequence = OLD.sequence AND reason = coalesce(OLD.reason, '');
    DELETE FROM failures WHERE sequence = OLD.sequence AND reason = coalesce(OLD.reason, '') AND jobs <= 0;
END;
CREATE TRIGGER failures_deleted AFTER DELETE ON jobs WHEN OLD.state = 'FAILED' BEGIN
    UPDATE failures SET jobs = jobs - 1 WHERE sequence = OLD.sequence AND reason = coalesce(OLD.reason, '');
    DELETE FROM failures WHERE sequence = OLD.sequence AND reason = coalesce(OLD.reason, '') AND jobs <= 0;
END;
CREATE INDEX jobs_children ON jobs(parent) WHERE parent IS NOT NULL;
CREATE INDEX results_job ON results(job);
CREATE INDEX results_error ON results(run, id) WHERE outcome = 'error';
CREATE INDEX results_warning ON results(run, id) WHERE outcome = 'warning';
CREATE INDEX withdrawals_delivery ON withdrawals(delivery, id);
CREATE INDEX sequences_stopped ON sequences(run) WHERE paused = 2;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',85);
INSERT INTO "sqlite_sequence" VALUES('runs',2);
INSERT INTO "sqlite_sequence" VALUES('supervisors',2);
INSERT INTO "sqlite_sequence" VALUES('appenders',2);
INSERT INTO "sqlite_sequence" VALUES('nodes',4);
INSERT INTO "sqlite_sequence" VALUES('jobs',27);
INSERT INTO "sqlite_sequence" VALUES('rows',34);
INSERT INTO "sqlite_sequence" VALUES('commands',1);
PRAGMA user_version = 10;
