PRAGMA application_id = 1668770915;
PRAGMA user_version = 28;
BEGIN TRANSACTION;
CREATE TABLE appenders (
 epoch INTEGER PRIMARY KEY AUTOINCREMENT,
 run INTEGER NOT NULL REFERENCES runs(seq),
 supervisor INTEGER NOT NULL REFERENCES supervisors(epoch),
 state TEXT NOT NULL DEFAULT 'STARTING'
 CHECK (state IN ('STARTING','READY','DONE','STANDBY','DRAINING','SHUTDOWN','TERMINATED','DEAD','FAILED')),
 identity TEXT,
 pid INTEGER,
 started_at REAL NOT NULL,
 ended_at REAL,
 beat_age REAL,
 flush_ms REAL
);
INSERT INTO "appenders" VALUES(1,1,1,'TERMINATED','dcd5412e-0e8a-4509-a773-bebb138944bc:11771:57327',11771,1.79583890013050079346e+09,1.79583890031095075607e+09,3.31368399999973917147e-02,0.0);
CREATE TABLE checkpoints (
 run INTEGER NOT NULL REFERENCES runs(seq),
 grp TEXT NOT NULL,
 task TEXT NOT NULL DEFAULT '',
 step_name TEXT NOT NULL,
 position INTEGER NOT NULL DEFAULT 0,
 completed INTEGER NOT NULL,
 completed_at REAL,
 validation_status TEXT NOT NULL CHECK (validation_status IN ('valid','provisional','invalid')),
 reason TEXT,
 content_hash TEXT NOT NULL,
 dependencies TEXT NOT NULL,
 kept INTEGER NOT NULL DEFAULT 0,
 CHECK ((completed = 1) = (completed_at IS NOT NULL)),
 CHECK (completed = 0 OR validation_status <> 'invalid'),
 CHECK (completed = 1 OR validation_status <> 'valid'),
 PRIMARY KEY (run, grp, task, step_name)
) WITHOUT ROWID;
INSERT INTO "checkpoints" VALUES(1,'products','','loader',1,1,1.79583890031321787832e+09,'valid',NULL,'eb61fcd90cd2cd65864d47f837b07131','["shop/loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'products','products','appender',4,1,1.79583890031321787832e+09,'valid',NULL,'074bf4b9849bf3383c7e0506d48cdd99','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'products','products','filter',3,1,1.79583890031321787832e+09,'valid',NULL,'d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'products','products','parser',2,1,1.79583890031321787832e+09,'valid',NULL,'4877de79c53c27625107d821668c20a8','["loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'shop','','loader',1,1,1.79583890031321787832e+09,'valid',NULL,'cb5f9dac2b4cfdb1fdd289edfd7d6c42','["seeder"]',0);
INSERT INTO "checkpoints" VALUES(1,'shop','','seeder',0,1,1.79583890018247222895e+09,'valid',NULL,'41141548872074a502edac8089733bdc','[]',0);
INSERT INTO "checkpoints" VALUES(1,'shop','links','appender',4,1,1.79583890031321787832e+09,'valid',NULL,'379075328396309e156532c83670c6a9','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'shop','links','filter',3,1,1.79583890031321787832e+09,'valid',NULL,'d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'shop','links','parser',2,1,1.79583890031321787832e+09,'valid',NULL,'f076ba02dac2ad6aa42e014c0b2cf90e','["loader"]',0);
CREATE TABLE commands (
 id INTEGER PRIMARY KEY AUTOINCREMENT,
 supervisor INTEGER NOT NULL REFERENCES supervisors(epoch),
 name TEXT NOT NULL,
 arguments TEXT NOT NULL DEFAULT '{}',
 state TEXT NOT NULL DEFAULT 'NEW' CHECK (state IN ('NEW','DONE','REFUSED','EXPIRED')),
 answer TEXT,
 given_at REAL NOT NULL,
 ended_at REAL
);
CREATE TABLE content_sums (
 run INTEGER NOT NULL REFERENCES runs(seq),
 grp TEXT NOT NULL,
 documents INTEGER NOT NULL,
 document_sum BLOB NOT NULL,
 rows INTEGER NOT NULL,
 row_sum BLOB NOT NULL,
 PRIMARY KEY (run, grp)
) WITHOUT ROWID;
INSERT INTO "content_sums" VALUES(1,'products',3,X'C9F5395DB74C4B07DDC98AD8F608CEC3',2,X'4E2433EBEE9596CB8E09A79483C95704');
INSERT INTO "content_sums" VALUES(1,'shop',1,X'D8E63E89E49D81DC70A58243872C4041',0,X'00000000000000000000000000000000');
CREATE TABLE cookie_jars (
 run INTEGER NOT NULL REFERENCES runs(seq),
 site TEXT NOT NULL,
 version INTEGER NOT NULL,
 node INTEGER NOT NULL,
 jar BLOB NOT NULL,
 PRIMARY KEY (run, site)
) WITHOUT ROWID;
CREATE TABLE data_defs (
 id INTEGER PRIMARY KEY,
 name TEXT NOT NULL,
 hash TEXT NOT NULL,
 UNIQUE (name, hash)
);
INSERT INTO "data_defs" VALUES(1,'links','4c9c69fde625b47b9c879ae2da0994b6');
INSERT INTO "data_defs" VALUES(2,'product','15e6f4cba3e6c24dfdfa9b882ea18ea1');
CREATE TABLE def_versions (
 version INTEGER PRIMARY KEY,
 hash TEXT NOT NULL,
 definitions TEXT NOT NULL,
 accepted_at REAL NOT NULL
);
INSERT INTO "def_versions" VALUES(1,'84e47d8d6aab4fb5e578d317f258d050','{"appenders":[{"batch":null,"bom":false,"code":"","columns":[],"data_defs":[],"delimiter":",","escape_formulas":false,"flatten":false,"headers":{},"include_tags":false,"kind":"built-in","limit":null,"name":"rows","options":null,"path":null,"place":["",0,0],"quoting":"minimal","run":[],"suffix":"","type":"csv","url":""}],"base_url":null,"data_defs":[{"axis":null,"block":null,"code":"","fields":[],"filters":[],"key":[],"links":[{"allow":[],"attribute":"href","carry":[],"deny":[],"group":"products","in_block":false,"largest":false,"max_depth":null,"place":["defs.yml",6,19],"priority":null,"request":null,"same_host":true,"selector":"a.p"}],"name":"links","next":null,"place":["defs.yml",6,3]},{"axis":null,"block":null,"code":"","fields":[{"all":false,"attribute":"text","convert":[],"decimal_mark":null,"default":null,"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locale":null,"match":null,"name":"name","place":["defs.yml",7,22],"replace":[],"required":false,"scope":null,"selector":"h1","split":null,"type":"str","value":null,"whitespace":null},{"all":false,"attribute":"text","convert":[],"decimal_mark":null,"default":null,"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locale":null,"match":null,"name":"price","place":["defs.yml",7,44],"replace":[],"required":false,"scope":null,"selector":".price","split":null,"type":"price","value":null,"whitespace":null}],"filters":[],"key":[],"links":[],"name":"product","next":null,"place":["defs.yml",7,3]}],"expectations":[],"files":["defs.yml"],"hosts":[{"auth":null,"blocked":[],"challenges":true,"concurrency":null,"cookie_jar":null,"cookies":{},"delay":null,"drop":[],"headers":{},"hours":null,"login":null,"middleware":[],"name":"127.0.0.1","nofollow":true,"place":["defs.yml",8,9],"private":null,"retry":null,"robots":false,"route":null,"throttle":null}],"locator_groups":[{"locators":[{"body":null,"body_pieces":[],"content_type":null,"cookies":{},"from_file":null,"headers":{},"method":"GET","name":"start","place":["defs.yml",1,35],"seed_columns":null,"sitemap":null,"sitemap_rules":null,"until_empty":false,"urls":["http://127.0.0.1:42801/"]}],"name":"shop","place":["defs.yml",1,17]}],"plugins":[],"task_groups":[{"canonical":false,"documents":true,"live":null,"max_depth":null,"max_pages":null,"name":"products","place":["defs.yml",4,3],"priority":0,"recrawl":null,"revalidate":false,"tasks":[{"chain":[],"code":"","data_def":"product","loader_code":"","name":"products","place":["defs.yml",4,14],"steps":null}]},{"canonical":false,"documents":true,"live":null,"max_depth":null,"max_pages":null,"name":"shop","place":["defs.yml",3,3],"priority":0,"recrawl":null,"revalidate":false,"tasks":[{"chain":[],"code":"","data_def":"links","loader_code":"","name":"links","place":["defs.yml",3,10],"steps":null}]}]}',1.79583890009852051739e+09);
CREATE TABLE deleted_runs (
 run INTEGER PRIMARY KEY,
 id TEXT NOT NULL UNIQUE,
 created_at REAL NOT NULL,
 deleted_at REAL NOT NULL,
 complete INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE deliveries (
 id INTEGER PRIMARY KEY,
 run INTEGER NOT NULL REFERENCES runs(seq),
 appender TEXT NOT NULL,
 data_def TEXT NOT NULL,
 offered INTEGER NOT NULL DEFAULT 0,
 cursor INTEGER NOT NULL DEFAULT 0,
 withdrawal INTEGER NOT NULL DEFAULT 0,
 rows INTEGER NOT NULL DEFAULT 0,
 UNIQUE (run, appender, data_def)
);
CREATE TABLE document_aliases (
 key BLOB NOT NULL,
 document INTEGER NOT NULL REFERENCES documents(id),
 PRIMARY KEY (key, document)
) WITHOUT ROWID;
CREATE TABLE documents (
 id INTEGER PRIMARY KEY,
 run INTEGER NOT NULL REFERENCES runs(seq),
 key BLOB NOT NULL,
 url TEXT NOT NULL,
 status INTEGER NOT NULL,
 content_type TEXT NOT NULL,
 fetched_at REAL NOT NULL,
 size INTEGER NOT NULL,
 pruned INTEGER NOT NULL DEFAULT 0,
 digest BLOB NOT NULL,
 checked_at REAL,
 checked_run INTEGER,
 recrawl_after REAL
);
INSERT INTO "documents" VALUES(1,1,X'919740FD9FB5A32199BEFCB0BA17A8B2','http://127.0.0.1:42801/',200,'text/html',1.79583890022271323201e+09,181,0,X'D8E63E89E49D81DC70A58243872C4041',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(2,1,X'64A559A8C5D5C8E9286E7904F2BCCDA4','http://127.0.0.1:42801/one.html',200,'text/html',1.79583890023771929741e+09,99,0,X'50B2B9991B0EAFA581672CCED5E2DA72',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(3,1,X'9BB959EE255CD1D9DEC0E4F3ABFBE76E','http://127.0.0.1:42801/two.html',200,'text/html',1.79583890028117918965e+09,99,0,X'139522DEF2C12F12206D9C71D7E78F42',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(4,1,X'F8AE771D1709AB71E0DD167C03690E21','http://127.0.0.1:42801/gone.html',404,'text/html;charset=utf-8',1.79583890028204774856e+09,335,0,X'65AD5CE5A97C6C503BF4C198483E650F',NULL,NULL,NULL);
CREATE TABLE events (
 id INTEGER PRIMARY KEY AUTOINCREMENT,
 run INTEGER,
 at REAL NOT NULL,
 level TEXT NOT NULL CHECK (level IN ('INFO','WARNING','ERROR')),
 source TEXT NOT NULL,
 kind TEXT NOT NULL,
 job INTEGER,
 text TEXT NOT NULL
);
INSERT INTO "events" VALUES(1,1,1.79583890009616136546e+09,'INFO','supervisor','run',NULL,'run ba7aa7 started, defs v1');
INSERT INTO "events" VALUES(2,1,1.79583890012899780267e+09,'INFO','supervisor','stage',NULL,'CHECK_LOCK');
INSERT INTO "events" VALUES(3,1,1.79583890013000369067e+09,'INFO','supervisor','stage',NULL,'START_APPENDER');
INSERT INTO "events" VALUES(4,1,1.79583890013298082353e+09,'INFO','supervisor','stage',NULL,'START_NODES');
INSERT INTO "events" VALUES(5,1,1.79583890013599848742e+09,'INFO','n1','state',NULL,'n1 STARTING RUNNER');
INSERT INTO "events" VALUES(6,1,1.7958389001371977329e+09,'INFO','supervisor','node',NULL,'n1 started as RUNNER');
INSERT INTO "events" VALUES(7,1,1.79583890014098739628e+09,'INFO','supervisor','stage',NULL,'RUNNING');
INSERT INTO "events" VALUES(8,1,1.79583890014698219304e+09,'INFO','supervisor','state',NULL,'run SEEDING');
INSERT INTO "events" VALUES(9,1,1795838900.17599,'INFO','n1','state',NULL,'n1 DONE RUNNER');
INSERT INTO "events" VALUES(10,1,1.79583890022700572012e+09,'INFO','supervisor','state',NULL,'run READY');
INSERT INTO "events" VALUES(11,1,1.79583890022614645954e+09,'INFO','n1','page',1,'200   13 ms    0 kB   0 rows  ');
INSERT INTO "events" VALUES(12,1,1.79583890028076696397e+09,'INFO','n1','page',2,'200    3 ms    0 kB   1 row   ');
INSERT INTO "events" VALUES(13,1,1.79583890028166317937e+09,'INFO','n1','page',3,'200   46 ms    0 kB   1 row   ');
INSERT INTO "events" VALUES(14,1,1.7958389002821183205e+09,'INFO','n1','page',4,'SKIPPED: HTTP 404 (gone)  http://127.0.0.1:42801/gone.html');
INSERT INTO "events" VALUES(15,1,1.79583890028699350352e+09,'INFO','supervisor','state',NULL,'run DRAINING');
INSERT INTO "events" VALUES(16,1,1.79583890028699350352e+09,'INFO','supervisor','stage',NULL,'CRAWL_COMPLETE');
INSERT INTO "events" VALUES(17,1,1.79583890028799915308e+09,'INFO','supervisor','stage',NULL,'STOPPING_NODES_GRACEFUL');
INSERT INTO "events" VALUES(18,1,1.79583890029101657867e+09,'INFO','n1','state',NULL,'n1 SHUTDOWN RUNNER');
INSERT INTO "events" VALUES(19,1,1.7958389003020002842e+09,'INFO','n1','state',NULL,'n1 TERMINATED RUNNER');
INSERT INTO "events" VALUES(20,1,1.79583890030312156682e+09,'INFO','supervisor','node',NULL,'n1 stopped gracefully');
INSERT INTO "events" VALUES(21,1,1.79583890030300617215e+09,'INFO','supervisor','stage',NULL,'STOPPING_APPENDER_GRACEFUL');
INSERT INTO "events" VALUES(22,1,1.79583890031101250646e+09,'INFO','supervisor','stage',NULL,'RELEASING_LOCK');
INSERT INTO "events" VALUES(23,1,1.79583890031201839441e+09,'INFO','supervisor','state',NULL,'run DONE');
INSERT INTO "events" VALUES(24,1,1.79583890031286621093e+09,'INFO','supervisor','run',NULL,'run ba7aa7 DONE');
INSERT INTO "events" VALUES(25,1,1.79583890031499576571e+09,'INFO','supervisor','stage',NULL,'SHUTDOWN_COMPLETE');
CREATE TABLE failures (
 sequence INTEGER NOT NULL REFERENCES sequences(id),
 reason TEXT NOT NULL,
 jobs INTEGER NOT NULL,
 PRIMARY KEY (sequence, reason)
) WITHOUT ROWID;
CREATE TABLE field_health (
 id INTEGER PRIMARY KEY,
 run INTEGER NOT NULL REFERENCES runs(seq),
 data_def INTEGER NOT NULL REFERENCES data_defs(id),
 field TEXT NOT NULL,
 defaults INTEGER NOT NULL,
 missing INTEGER NOT NULL DEFAULT 0,
 UNIQUE (run, data_def, field)
);
INSERT INTO "field_health" VALUES(1,1,2,'name',0,0);
INSERT INTO "field_health" VALUES(2,1,2,'price',0,0);
CREATE TABLE files (
 id INTEGER PRIMARY KEY AUTOINCREMENT,
 run INTEGER NOT NULL REFERENCES runs(seq),
 job INTEGER NOT NULL REFERENCES jobs(id),
 path TEXT NOT NULL,
 size INTEGER NOT NULL,
 hash TEXT NOT NULL,
 type TEXT NOT NULL,
 key BLOB NOT NULL,
 at REAL NOT NULL,
 validators TEXT NOT NULL
);
CREATE TABLE health (
 run INTEGER NOT NULL REFERENCES runs(seq),
 data_def INTEGER NOT NULL REFERENCES data_defs(id),
 pages INTEGER NOT NULL DEFAULT 0,
 records INTEGER NOT NULL DEFAULT 0,
 rejected INTEGER NOT NULL DEFAULT 0,
 filtered INTEGER NOT NULL DEFAULT 0,
 PRIMARY KEY (run, data_def)
) WITHOUT ROWID;
INSERT INTO "health" VALUES(1,2,2,2,0,0);
CREATE TABLE held_files (
 held INTEGER NOT NULL REFERENCES held_rows(id),
 file INTEGER NOT NULL REFERENCES jobs(id),
 PRIMARY KEY (held, file)
) WITHOUT ROWID;
CREATE TABLE held_rows (
 id INTEGER PRIMARY KEY AUTOINCREMENT,
 run INTEGER NOT NULL REFERENCES runs(seq),
 job INTEGER NOT NULL REFERENCES jobs(id),
 data_def INTEGER NOT NULL REFERENCES data_defs(id),
 data TEXT NOT NULL,
 files TEXT NOT NULL
);
CREATE TABLE host_answers (
 host INTEGER NOT NULL REFERENCES hosts(id),
 status INTEGER NOT NULL,
 answers INTEGER NOT NULL,
 PRIMARY KEY (host, status)
) WITHOUT ROWID;
INSERT INTO "host_answers" VALUES(1,200,3);
INSERT INTO "host_answers" VALUES(1,404,1);
CREATE TABLE host_latencies (
 host INTEGER NOT NULL REFERENCES hosts(id),
 bucket INTEGER NOT NULL,
 answers INTEGER NOT NULL,
 PRIMARY KEY (host, bucket)
) WITHOUT ROWID;
INSERT INTO "host_latencies" VALUES(1,13,1);
INSERT INTO "host_latencies" VALUES(1,30,1);
INSERT INTO "host_latencies" VALUES(1,45,2);
CREATE TABLE host_speeds (
 host INTEGER PRIMARY KEY REFERENCES hosts(id),
 run INTEGER NOT NULL REFERENCES runs(seq),
 bytes INTEGER NOT NULL DEFAULT 0,
 measured_at REAL NOT NULL DEFAULT 0,
 p50 REAL,
 p95 REAL,
 recent_p50 TEXT,
 eta REAL
);
INSERT INTO "host_speeds" VALUES(1,1,714,573.421070089,1.3454342644059431866e-02,0.0489411551713426,'[0.013454342644059432]',NULL);
CREATE TABLE hosts (
 id INTEGER PRIMARY KEY,
 run INTEGER NOT NULL REFERENCES runs(seq),
 key TEXT NOT NULL,
 origin TEXT NOT NULL,
 delay REAL NOT NULL,
 delay_max REAL NOT NULL DEFAULT 0,
 concurrency INTEGER NOT NULL,
 crawl_delay REAL NOT NULL DEFAULT 0,
 next_at REAL,
 machine INTEGER,
 backoff_until REAL,
 strikes INTEGER NOT NULL DEFAULT 0,
 rest_reason TEXT,
 throttled INTEGER NOT NULL DEFAULT 0,
 errors INTEGER NOT NULL DEFAULT 0,
 robots TEXT NOT NULL CHECK (robots IN ('OFF','WANTED','KNOWN')),
 robots_status INTEGER,
 robots_text TEXT,
 named INTEGER NOT NULL DEFAULT 0,
 robots_fetched_at REAL,
 robots_agent TEXT,
 content_signal TEXT,
 throttle INTEGER NOT NULL DEFAULT 0,
 pace REAL NOT NULL DEFAULT 1,
 least_pace REAL NOT NULL DEFAULT 0,
 records INTEGER NOT NULL DEFAULT 0,
 records_rejected INTEGER NOT NULL DEFAULT 0,
 gone INTEGER NOT NULL DEFAULT 0,
 blocked INTEGER NOT NULL DEFAULT 0,
 answers INTEGER NOT NULL DEFAULT 1,
 operator_delay REAL,
 operator_concurrency INTEGER,
 paused INTEGER NOT NULL DEFAULT 0,
 login TEXT NOT NULL DEFAULT 'OFF' CHECK (login IN ('OFF','WANTED','DONE','FAILED')),
 login_number INTEGER NOT NULL DEFAULT 0,
 login_failure TEXT,
 lost_in_row INTEGER NOT NULL DEFAULT 0,
 UNIQUE (run, key)
);
INSERT INTO "hosts" VALUES(1,1,'127.0.0.1:42801','http://127.0.0.1:42801',0.0,0.0,8,0.0,NULL,NULL,NULL,0,NULL,0,0,'OFF',NULL,NULL,1,NULL,NULL,NULL,0,1.0,0.0,2,0,1,0,1,NULL,NULL,0,'OFF',0,NULL,0);
CREATE TABLE jobs (
 id INTEGER PRIMARY KEY AUTOINCREMENT,
 run INTEGER NOT NULL REFERENCES runs(seq),
 sequence INTEGER NOT NULL REFERENCES sequences(id),
 state TEXT NOT NULL DEFAULT 'READY'
 CHECK (state IN ('READY','TAKEN','DONE','FAILED','SKIPPED','INCOMPLETE')),
 priority INTEGER NOT NULL DEFAULT 0,
 not_before REAL,
 lease INTEGER,
 node INTEGER,
 attempts INTEGER NOT NULL DEFAULT 0,
 crashes INTEGER NOT NULL DEFAULT 0,
 hops INTEGER NOT NULL DEFAULT 0,
 depth INTEGER NOT NULL DEFAULT 0,
 origin TEXT NOT NULL CHECK (origin IN ('locator','link')),
 locator INTEGER REFERENCES locators(id),
 root INTEGER,
 document INTEGER,
 defs INTEGER,
 page INTEGER,
 linked INTEGER,
 url TEXT NOT NULL,
 target TEXT,
 reason TEXT,
 changed_at REAL,
 page_key BLOB,
 identity BLOB NOT NULL,
 may_leave_host INTEGER NOT NULL DEFAULT 1,
 parent INTEGER,
 link_request TEXT,
 carried TEXT,
 fresh_since REAL,
 CHECK ((state = 'TAKEN') = (lease IS NOT NULL)),
 UNIQUE (run, identity)
);
INSERT INTO "jobs" VALUES(1,1,1,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',1,NULL,1,1,NULL,NULL,'http://127.0.0.1:42801/',NULL,NULL,1.79583890022901749607e+09,X'5E675C8EECFA8ABFA237E723A7F30C81',X'8279DA4E4E6A4C7BC78B5200E9E76292',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(2,1,2,'DONE',0,NULL,NULL,1,1,0,0,1,'link',1,1,2,1,NULL,NULL,'http://127.0.0.1:42801/one.html',NULL,NULL,1.79583890028301024436e+09,NULL,X'7E083B07D0025D36702D1D9006995407',0,1,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(3,1,2,'DONE',0,NULL,NULL,1,1,0,0,1,'link',1,1,3,1,NULL,NULL,'http://127.0.0.1:42801/two.html',NULL,NULL,1.79583890028301024436e+09,NULL,X'16B7B121FDE0DB7DD29DB6B172CC35EB',0,1,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(4,1,2,'SKIPPED',0,NULL,NULL,1,1,0,0,1,'link',1,1,4,1,NULL,NULL,'http://127.0.0.1:42801/gone.html',NULL,'HTTP 404 (gone)',1.79583890028301024436e+09,NULL,X'E171712BA196760B338047748721C7E9',0,1,NULL,NULL,NULL);
CREATE TABLE leader (
 id INTEGER PRIMARY KEY CHECK (id = 1),
 epoch INTEGER,
 fence INTEGER NOT NULL
);
INSERT INTO "leader" VALUES(1,NULL,0);
CREATE TABLE locators (
 id INTEGER PRIMARY KEY,
 run INTEGER NOT NULL REFERENCES runs(seq),
 grp TEXT NOT NULL,
 name TEXT NOT NULL,
 request TEXT NOT NULL,
 UNIQUE (run, grp, name, request)
);
INSERT INTO "locators" VALUES(1,1,'shop','start','{"method":"GET","headers":[],"cookies":[],"body":null,"content_type":null}');
CREATE TABLE meta (
 name TEXT PRIMARY KEY,
 value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO "meta" VALUES('boot','dcd5412e-0e8a-4509-a773-bebb138944bc 573.450180783');
INSERT INTO "meta" VALUES('defs_problems','[]');
INSERT INTO "meta" VALUES('defs_saved','null');
INSERT INTO "meta" VALUES('helpers','[]');
INSERT INTO "meta" VALUES('identity','c0b93ffed584e5588c251217cbd321ab');
INSERT INTO "meta" VALUES('settings','{"nodes":{"least":1,"most":2},"node_wait":5.0,"node_idle":60.0,"backups":0,"quorum":1,"concurrency":32,"batch":32,"grace":25.0,"stop_within":null,"node_drain":1800.0,"file_drain":300.0,"send_drain":15.0,"output_every":600.0,"heart_timeout":1.0,"start_timeout":20.0,"deadline":30.0,"max_attempts":1,"max_body":10000000,"max_file":1000000000,"max_redirects":10,"seed_retries":3,"max_failed":0,"min_rows":null,"max_rejected":null,"robots":true,"user_agent":"crawl-console/0.1.0","contact":null,"meta_nofollow":true,"meta_noindex":false,"meta_refresh":true,"throttle":"off","host_clock":true,"delay":0.0,"host_concurrency":8,"live":"PT0S","documents":true,"on_reload":"reextract","on_save":"publish","refresh":2.0,"parse_limit":5.0,"parse_memory":400000000,"max_links":50000,"max_repeats":null,"cpu_affinity":"auto","max_pages":null,"max_time":null,"min_free":64000000,"keep_runs":null,"keep_pages":null,"keep_events":null,"max_data":null,"store":null,"project":null,"page_store":null,"helpers":null,"on_start":null,"on_end":null,"on_alarm":null,"base_url":null,"allow_file":false,"default_steps":"jsoupDefault","fact_blank":"-","fact_not_found":"not found","date_time_pattern":null,"run_time":null}');
CREATE TABLE metrics (
 run INTEGER NOT NULL REFERENCES runs(seq),
 grp TEXT NOT NULL,
 fetches INTEGER NOT NULL DEFAULT 0,
 fetch_seconds REAL NOT NULL DEFAULT 0,
 bytes INTEGER NOT NULL DEFAULT 0,
 retries INTEGER NOT NULL DEFAULT 0,
 noindex INTEGER NOT NULL DEFAULT 0,
 requests INTEGER NOT NULL DEFAULT 0,
 PRIMARY KEY (run, grp)
) WITHOUT ROWID;
INSERT INTO "metrics" VALUES(1,'products',3,9.61061350000136371818e-02,533,0,0,3);
INSERT INTO "metrics" VALUES(1,'shop',1,1.27755859999751919531e-02,181,0,0,1);
CREATE TABLE nodes (
 epoch INTEGER PRIMARY KEY AUTOINCREMENT,
 run INTEGER NOT NULL REFERENCES runs(seq),
 supervisor INTEGER NOT NULL REFERENCES supervisors(epoch),
 number INTEGER NOT NULL,
 state TEXT NOT NULL DEFAULT 'STARTING'
 CHECK (state IN ('STARTING','READY','DONE','STANDBY','DRAINING','SHUTDOWN','TERMINATED','DEAD','FAILED')),
 role TEXT NOT NULL DEFAULT 'INITIAL'
 CHECK (role IN ('INITIAL','RUNNER','BACKUP_RUNNER','DEAD_RUNNER','DEAD_BACKUP_RUNNER')),
 heart TEXT NOT NULL DEFAULT 'NEWBORN'
 CHECK (heart IN ('NEWBORN','HEALTHY','ARRHYTHMIA','ASYSTOLE','APPARENT_DEATH')),
 identity TEXT,
 pid INTEGER,
 replaces INTEGER,
 started_at REAL NOT NULL,
 ended_at REAL,
 reason TEXT,
 beat_age REAL,
 in_flight INTEGER NOT NULL DEFAULT 0,
 done INTEGER NOT NULL DEFAULT 0,
 failed INTEGER NOT NULL DEFAULT 0,
 rss INTEGER NOT NULL DEFAULT 0,
 lag REAL NOT NULL DEFAULT 0,
 now TEXT NOT NULL DEFAULT '',
 now_age REAL NOT NULL DEFAULT 0,
 now_limit REAL NOT NULL DEFAULT 0,
 UNIQUE (run, number)
);
INSERT INTO "nodes" VALUES(1,1,1,1,'TERMINATED','RUNNER','APPARENT_DEATH','dcd5412e-0e8a-4509-a773-bebb138944bc:11775:57328',11775,NULL,1.79583890013638424873e+09,1.79583890030257797235e+09,'stopped gracefully',1.85396000006221584044e-04,0,3,0,53325824,0.0,'',0.0,0.0);
CREATE TABLE outputs (
 id INTEGER PRIMARY KEY,
 run INTEGER NOT NULL REFERENCES runs(seq),
 appender TEXT NOT NULL,
 type TEXT NOT NULL,
 data_def TEXT NOT NULL,
 path TEXT NOT NULL,
 settings TEXT NOT NULL,
 cursor INTEGER NOT NULL DEFAULT 0,
 bytes INTEGER NOT NULL DEFAULT 0,
 rows INTEGER NOT NULL DEFAULT 0,
 inode INTEGER,
 dirty INTEGER NOT NULL DEFAULT 0,
 pending TEXT,
 delivers INTEGER NOT NULL DEFAULT 0,
 error TEXT,
 UNIQUE (run, appender, data_def)
);
INSERT INTO "outputs" VALUES(1,1,'rows','csv','product','/srv/shop/data/output/ba7aa7/product.csv','{"columns":["name","price"],"delimiter":",","joins":{},"types":{"name":"str","price":"price"}}',2,98,2,1102175,0,NULL,0,NULL);
CREATE TABLE page_defs (
 version INTEGER NOT NULL REFERENCES def_versions(version),
 grp TEXT NOT NULL,
 hash TEXT NOT NULL,
 data_defs TEXT NOT NULL,
 follow TEXT NOT NULL,
 PRIMARY KEY (version, grp)
) WITHOUT ROWID;
INSERT INTO "page_defs" VALUES(1,'products','50bb927a03c327940ad3664ac37acd5a','[2]','');
INSERT INTO "page_defs" VALUES(1,'shop','55a77c28f9a9f12168f7b71688819570','[1]','6f4d1828d099343e67744bfcf0da150b');
CREATE TABLE page_health (
 job INTEGER NOT NULL REFERENCES jobs(id),
 data_def INTEGER NOT NULL REFERENCES data_defs(id),
 records INTEGER NOT NULL,
 rejected INTEGER NOT NULL,
 missing TEXT,
 filtered INTEGER NOT NULL,
 PRIMARY KEY (job, data_def)
) WITHOUT ROWID;
INSERT INTO "page_health" VALUES(2,2,1,0,NULL,0);
INSERT INTO "page_health" VALUES(3,2,1,0,NULL,0);
CREATE TABLE page_repeats (
 sequence INTEGER PRIMARY KEY REFERENCES sequences(id),
 digest INTEGER NOT NULL,
 pages INTEGER NOT NULL,
 pattern TEXT NOT NULL,
 longest INTEGER NOT NULL,
 longest_pattern TEXT NOT NULL,
 skipped INTEGER NOT NULL
);
INSERT INTO "page_repeats" VALUES(1,8028635173501005633,1,'http://127.0.0.1:42801/',0,'',0);
INSERT INTO "page_repeats" VALUES(2,4696283407974365229,1,'http://127.0.0.1:42801/two.html',0,'',0);
CREATE TABLE page_warnings (
 run INTEGER NOT NULL REFERENCES runs(seq),
 data_def INTEGER NOT NULL REFERENCES data_defs(id),
 field TEXT NOT NULL,
 code TEXT NOT NULL,
 text TEXT NOT NULL,
 PRIMARY KEY (run, data_def, field, code)
) WITHOUT ROWID;
CREATE TABLE rejections (
 job INTEGER NOT NULL REFERENCES jobs(id),
 data_def TEXT NOT NULL,
 records INTEGER NOT NULL,
 PRIMARY KEY (job, data_def)
) WITHOUT ROWID;
CREATE TABLE result_counts (
 run INTEGER NOT NULL REFERENCES runs(seq),
 grp TEXT NOT NULL,
 task TEXT NOT NULL,
 step TEXT NOT NULL,
 outcome TEXT NOT NULL CHECK (outcome IN ('ok','warning','error','not_applicable')),
 code TEXT NOT NULL,
 results INTEGER NOT NULL,
 PRIMARY KEY (run, grp, task, step, outcome, code)
) WITHOUT ROWID;
CREATE TABLE results (
 id INTEGER PRIMARY KEY AUTOINCREMENT,
 run INTEGER NOT NULL REFERENCES runs(seq),
 job INTEGER NOT NULL REFERENCES jobs(id),
 data_def INTEGER NOT NULL REFERENCES data_defs(id),
 grp TEXT NOT NULL,
 task TEXT NOT NULL,
 step TEXT NOT NULL,
 outcome TEXT NOT NULL CHECK (outcome IN ('ok','warning','error')),
 code TEXT NOT NULL,
 ms REAL NOT NULL,
 text TEXT NOT NULL
);
CREATE TABLE row_counts (
 run INTEGER NOT NULL REFERENCES runs(seq),
 data_def TEXT NOT NULL,
 rows INTEGER NOT NULL DEFAULT 0,
 rejected INTEGER NOT NULL DEFAULT 0,
 waiting INTEGER NOT NULL DEFAULT 0,
 PRIMARY KEY (run, data_def)
) WITHOUT ROWID;
INSERT INTO "row_counts" VALUES(1,'product',2,0,0);
CREATE TABLE rows (
 id INTEGER PRIMARY KEY AUTOINCREMENT,
 run INTEGER NOT NULL REFERENCES runs(seq),
 job INTEGER NOT NULL REFERENCES jobs(id),
 data_def INTEGER NOT NULL REFERENCES data_defs(id),
 data TEXT NOT NULL,
 digest BLOB
);
INSERT INTO "rows" VALUES(1,1,2,2,'{"name":"one","price":{"amount":9.50,"currency":null}}',X'6F7A7930DB97DA8941DDFB96E9C960D6');
INSERT INTO "rows" VALUES(2,1,3,2,'{"name":"two","price":{"amount":9.50,"currency":null}}',X'DEA9BABB12FDBC424C2BABFD99FFF62E');
CREATE TABLE runs (
 seq INTEGER PRIMARY KEY AUTOINCREMENT,
 id TEXT NOT NULL UNIQUE,
 state TEXT NOT NULL DEFAULT 'NEW'
 CHECK (state IN ('NEW','SEEDING','READY','DRAINING','DONE','CANCELLED','KILLED','FAILED')),
 stage TEXT NOT NULL DEFAULT 'INIT'
 CHECK (stage IN ('INIT','CHECK_LOCK','ABORT','START_APPENDER','START_NODES','RUNNING','CRAWL_COMPLETE',
 'INTERRUPTED','STOPPING_NODES_GRACEFUL','STOPPING_APPENDER_GRACEFUL',
 'STOPPING_NODES_FORCEFUL','STOPPING_APPENDER_FORCEFUL','RELEASING_LOCK','SHUTDOWN_COMPLETE')),
 reason TEXT,
 created_at REAL NOT NULL,
 started_at REAL,
 ended_at REAL,
 seconds REAL NOT NULL DEFAULT 0,
 defs_version INTEGER REFERENCES def_versions(version),
 seeded_version INTEGER,
 base_url TEXT,
 paused TEXT,
 slots INTEGER NOT NULL DEFAULT 0,
 active_sequences INTEGER NOT NULL DEFAULT 0,
 max_pages INTEGER,
 takeovers INTEGER NOT NULL DEFAULT 0,
 rates TEXT NOT NULL DEFAULT '{"pages_per_s":0.0,"rows_per_s":0.0,"queue_per_s":0.0}',
 reextraction TEXT,
 reextracted INTEGER NOT NULL DEFAULT 0,
 relinking INTEGER NOT NULL DEFAULT 0,
 extract_only INTEGER NOT NULL DEFAULT 0,
 arguments TEXT NOT NULL DEFAULT '{}',
 seeding TEXT,
 empty_seeds TEXT,
 baseline TEXT,
 drops TEXT,
 missed TEXT,
 alarms TEXT,
 acknowledged TEXT,
 exit_code INTEGER
);
INSERT INTO "runs" VALUES(1,'ba7aa7','DONE','SHUTDOWN_COMPLETE',NULL,1.79583890009616136546e+09,1.79583890009616136546e+09,1.79583890031286621093e+09,2.00346455000044443295e-01,1,1,NULL,NULL,0,0,NULL,0,'{"pages_per_s":30.15,"rows_per_s":20.1,"queue_per_s":-1.0,"eta":{"seconds":0.0,"bound_by":null,"exact":false,"reason":null},"eta_at":573.450163928}',NULL,0,0,0,'{}',NULL,'{}','{"seeds":"f335ad9c1c0c6a09ecf8fdd4715395e0","data_defs":{"product":[2,2,{"name":2,"price":2}]}}',NULL,'[]','[]',NULL,0);
CREATE TABLE samples (
 run INTEGER NOT NULL REFERENCES runs(seq),
 at REAL NOT NULL,
 pages REAL NOT NULL,
 rows REAL NOT NULL,
 failed INTEGER NOT NULL,
 queue INTEGER NOT NULL,
 answers TEXT,
 p50 REAL,
 p95 REAL,
 PRIMARY KEY (run, at)
) WITHOUT ROWID;
INSERT INTO "samples" VALUES(1,1.7958389003178296089e+09,1.49740608088090922933e+01,9.98270720587272819557e+00,0,0,'{"2xx":14.974060808809092,"4xx":4.991353602936364}',1.3454342644059431866e-02,0.0489411551713426);
CREATE TABLE seen_rows (
 scope INTEGER NOT NULL REFERENCES seen_scopes(id),
 digest BLOB NOT NULL,
 run INTEGER NOT NULL,
 PRIMARY KEY (scope, digest)
) WITHOUT ROWID;
CREATE TABLE seen_scopes (
 id INTEGER PRIMARY KEY,
 data_def TEXT NOT NULL,
 fields TEXT NOT NULL,
 UNIQUE (data_def, fields)
);
CREATE TABLE sequences (
 id INTEGER PRIMARY KEY,
 run INTEGER NOT NULL REFERENCES runs(seq),
 host INTEGER NOT NULL REFERENCES hosts(id),
 kind TEXT NOT NULL CHECK (kind IN ('page','robots','sitemap','extract','login','file')),
 grp TEXT NOT NULL,
 rung_at REAL,
 paused INTEGER NOT NULL DEFAULT 0,
 absent INTEGER NOT NULL DEFAULT 0
 CHECK (absent IN (0, 1, 2)),
 max_pages INTEGER,
 ready INTEGER NOT NULL DEFAULT 0,
 delayed INTEGER NOT NULL DEFAULT 0,
 taken INTEGER NOT NULL DEFAULT 0,
 done INTEGER NOT NULL DEFAULT 0,
 failed INTEGER NOT NULL DEFAULT 0,
 skipped INTEGER NOT NULL DEFAULT 0,
 incomplete INTEGER NOT NULL DEFAULT 0,
 UNIQUE (run, grp, host, kind)
);
INSERT INTO "sequences" VALUES(1,1,1,'page','shop',NULL,0,0,NULL,0,0,0,1,0,0,0);
INSERT INTO "sequences" VALUES(2,1,1,'page','products',NULL,0,0,NULL,0,0,0,2,0,1,0);
CREATE TABLE session_losses (
 job INTEGER PRIMARY KEY REFERENCES jobs(id),
 login INTEGER NOT NULL
);
CREATE TABLE step_checkpoints (
 job INTEGER PRIMARY KEY REFERENCES jobs(id),
 text TEXT NOT NULL
);
CREATE TABLE step_values (
 run INTEGER NOT NULL REFERENCES runs(seq),
 key TEXT NOT NULL,
 value TEXT NOT NULL,
 PRIMARY KEY (run, key)
) WITHOUT ROWID;
CREATE TABLE supervisors (
 epoch INTEGER PRIMARY KEY AUTOINCREMENT,
 identity TEXT NOT NULL,
 run INTEGER REFERENCES runs(seq),
 name TEXT NOT NULL DEFAULT '',
 program TEXT NOT NULL DEFAULT '',
 role TEXT NOT NULL DEFAULT 'LEADER' CHECK (role IN ('INITIAL','LEADER','STANDBY','LEAVING')),
 beats INTEGER NOT NULL DEFAULT 0,
 beat_at REAL,
 started_at REAL NOT NULL,
 ended_at REAL
);
INSERT INTO "supervisors" VALUES(1,'dcd5412e-0e8a-4509-a773-bebb138944bc:11768:57234',1,'','','LEADER',0,NULL,1.79583890009616136546e+09,1.79583890031286621093e+09);
CREATE TABLE temporary_documents (
 run INTEGER NOT NULL REFERENCES runs(seq),
 document INTEGER NOT NULL,
 grp TEXT NOT NULL,
 PRIMARY KEY (run, document)
) WITHOUT ROWID;
CREATE TABLE unlisted_results (
 job INTEGER NOT NULL REFERENCES jobs(id),
 data_def INTEGER NOT NULL REFERENCES data_defs(id),
 grp TEXT NOT NULL,
 task TEXT NOT NULL,
 step TEXT NOT NULL,
 outcome TEXT NOT NULL CHECK (outcome IN ('warning','not_applicable')),
 code TEXT NOT NULL,
 results INTEGER NOT NULL,
 PRIMARY KEY (job, data_def, step, outcome, code)
) WITHOUT ROWID;
CREATE TABLE withdrawals (
 id INTEGER PRIMARY KEY AUTOINCREMENT,
 delivery INTEGER NOT NULL REFERENCES deliveries(id),
 row INTEGER NOT NULL,
 newest INTEGER NOT NULL,
 counted INTEGER NOT NULL
);
CREATE INDEX deleted_runs_open ON deleted_runs(run) WHERE complete = 0;
CREATE INDEX hosts_robots ON hosts(key) WHERE robots_fetched_at IS NOT NULL;
CREATE INDEX sequences_host ON sequences(host);
CREATE INDEX sequences_rung ON sequences(run, rung_at) WHERE rung_at IS NOT NULL;
CREATE INDEX sequences_waiting ON sequences(run) WHERE rung_at IS NULL AND ready > 0 AND paused = 0;
CREATE INDEX sequences_absent ON sequences(run) WHERE absent > 0;
CREATE INDEX sequences_extract ON sequences(run) WHERE kind = 'extract';
CREATE INDEX sequences_stopped ON sequences(run) WHERE paused = 2;
CREATE INDEX page_repeats_found ON page_repeats(sequence) WHERE longest > 0;
CREATE INDEX jobs_due ON jobs(sequence, priority DESC, id) WHERE state = 'READY' AND not_before IS NULL;
CREATE INDEX jobs_waiting ON jobs(run, not_before) WHERE state = 'READY' AND not_before IS NOT NULL;
CREATE INDEX jobs_taken ON jobs(coalesce(target, url)) WHERE state = 'TAKEN';
CREATE INDEX jobs_incomplete ON jobs(run) WHERE state = 'INCOMPLETE';
CREATE INDEX jobs_suspect ON jobs(sequence, priority DESC, id) WHERE state = 'READY' AND crashes > 0;
CREATE INDEX jobs_failed ON jobs(run, coalesce(changed_at, 0)) WHERE state = 'FAILED';
CREATE INDEX jobs_skipped ON jobs(sequence) WHERE state = 'SKIPPED';
CREATE INDEX jobs_located ON jobs(run, page_key) WHERE page_key IS NOT NULL;
CREATE INDEX jobs_children ON jobs(parent) WHERE parent IS NOT NULL;
CREATE INDEX jobs_failed_of ON jobs(sequence) WHERE state = 'FAILED';
CREATE INDEX documents_key ON documents(key);
CREATE INDEX rows_job ON rows(job);
CREATE INDEX commands_new ON commands(supervisor) WHERE state = 'NEW';
CREATE INDEX events_job ON events(job) WHERE job IS NOT NULL;
CREATE INDEX host_speeds_measured ON host_speeds(run, measured_at);
CREATE INDEX host_speeds_eta ON host_speeds(run) WHERE eta IS NOT NULL;
CREATE INDEX results_job ON results(job);
CREATE INDEX results_error ON results(run, id) WHERE outcome = 'error';
CREATE INDEX results_warning ON results(run, id) WHERE outcome = 'warning';
CREATE INDEX withdrawals_delivery ON withdrawals(delivery, id);
CREATE INDEX cookie_jars_version ON cookie_jars(run, version);
CREATE INDEX files_job ON files(job);
CREATE INDEX files_hash ON files(hash, run);
CREATE INDEX files_key ON files(key);
CREATE INDEX held_rows_job ON held_rows(job);
CREATE INDEX held_rows_run ON held_rows(run);
CREATE INDEX held_files_file ON held_files(file);
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
 ready = ready + (NEW.state = 'READY' AND NEW.not_before IS NULL),
 delayed = delayed + (NEW.state = 'READY' AND NEW.not_before IS NOT NULL),
 taken = taken + (NEW.state = 'TAKEN'),
 skipped = skipped + (NEW.state = 'SKIPPED')
 WHERE id = NEW.sequence;
END;
CREATE TRIGGER jobs_changed AFTER UPDATE OF state, not_before ON jobs
WHEN OLD.sequence = NEW.sequence
 AND (OLD.state <> NEW.state OR (OLD.not_before IS NULL) <> (NEW.not_before IS NULL))
BEGIN
 UPDATE sequences SET
 ready = ready + (NEW.state = 'READY' AND NEW.not_before IS NULL)
 - (OLD.state = 'READY' AND OLD.not_before IS NULL),
 delayed = delayed + (NEW.state = 'READY' AND NEW.not_before IS NOT NULL)
 - (OLD.state = 'READY' AND OLD.not_before IS NOT NULL),
 taken = taken + (NEW.state = 'TAKEN') - (OLD.state = 'TAKEN'),
 done = done + (NEW.state = 'DONE') - (OLD.state = 'DONE'),
 failed = failed + (NEW.state = 'FAILED') - (OLD.state = 'FAILED'),
 skipped = skipped + (NEW.state = 'SKIPPED') - (OLD.state = 'SKIPPED'),
 incomplete = incomplete + (NEW.state = 'INCOMPLETE') - (OLD.state = 'INCOMPLETE')
 WHERE id = NEW.sequence;
END;
CREATE TRIGGER jobs_left AFTER UPDATE OF sequence ON jobs WHEN OLD.sequence <> NEW.sequence BEGIN
 UPDATE sequences SET
 ready = ready - (OLD.state = 'READY' AND OLD.not_before IS NULL),
 delayed = delayed - (OLD.state = 'READY' AND OLD.not_before IS NOT NULL),
 taken = taken - (OLD.state = 'TAKEN'),
 done = done - (OLD.state = 'DONE'),
 failed = failed - (OLD.state = 'FAILED'),
 skipped = skipped - (OLD.state = 'SKIPPED'),
 incomplete = incomplete - (OLD.state = 'INCOMPLETE')
 WHERE id = OLD.sequence;
 UPDATE sequences SET
 ready = ready + (NEW.state = 'READY' AND NEW.not_before IS NULL),
 delayed = delayed + (NEW.state = 'READY' AND NEW.not_before IS NOT NULL),
 taken = taken + (NEW.state = 'TAKEN'),
 done = done + (NEW.state = 'DONE'),
 failed = failed + (NEW.state = 'FAILED'),
 skipped = skipped + (NEW.state = 'SKIPPED'),
 incomplete = incomplete + (NEW.state = 'INCOMPLETE')
 WHERE id = NEW.sequence;
END;
CREATE TRIGGER jobs_gone AFTER DELETE ON jobs BEGIN
 UPDATE sequences SET
 ready = ready - (OLD.state = 'READY' AND OLD.not_before IS NULL),
 delayed = delayed - (OLD.state = 'READY' AND OLD.not_before IS NOT NULL),
 taken = taken - (OLD.state = 'TAKEN'),
 done = done - (OLD.state = 'DONE'),
 failed = failed - (OLD.state = 'FAILED'),
 skipped = skipped - (OLD.state = 'SKIPPED'),
 incomplete = incomplete - (OLD.state = 'INCOMPLETE')
 WHERE id = OLD.sequence;
END;
CREATE TRIGGER sequences_active AFTER UPDATE OF ready, taken ON sequences
WHEN (OLD.ready + OLD.taken > 0) <> (NEW.ready + NEW.taken > 0) AND NEW.kind <> 'extract'
BEGIN
 UPDATE runs SET active_sequences = active_sequences + (NEW.ready + NEW.taken > 0) - (OLD.ready + OLD.taken > 0)
 WHERE seq = NEW.run;
END;
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',25);
INSERT INTO "sqlite_sequence" VALUES('runs',1);
INSERT INTO "sqlite_sequence" VALUES('supervisors',1);
INSERT INTO "sqlite_sequence" VALUES('appenders',1);
INSERT INTO "sqlite_sequence" VALUES('nodes',1);
INSERT INTO "sqlite_sequence" VALUES('jobs',4);
INSERT INTO "sqlite_sequence" VALUES('rows',2);
COMMIT;
