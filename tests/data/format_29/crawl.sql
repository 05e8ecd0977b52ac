PRAGMA application_id = 1668770915;
PRAGMA user_version = 29;
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
INSERT INTO "appenders" VALUES(1,1,1,'TERMINATED','ebcd6009-52fb-4284-8f94-307bfa7e022b:19068:427865',19068,1.79590775563013291355e+09,1.79590778712573361395e+09,2.47583716000008280389e-01,1.49292980004247510805e+01);
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
INSERT INTO "checkpoints" VALUES(1,'chained','','loader',1,0,NULL,'provisional','cancelled by signal: 1 job left','121eff39f5d14cc74538726e58065ce0','["seeder"]',0);
INSERT INTO "checkpoints" VALUES(1,'chained','','seeder',0,1,1.79590775577896738057e+09,'valid',NULL,'dc8ad627d3a13116ef607d855b1bf1c8','[]',0);
INSERT INTO "checkpoints" VALUES(1,'chained','page','appender',4,0,NULL,'provisional','cancelled by signal: 1 job left','f2b47c3eb303e46b91dc0aabc46ead9f','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'chained','page','filter',3,0,NULL,'provisional','cancelled by signal: 1 job left','d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'chained','page','parser',2,0,NULL,'provisional','cancelled by signal: 1 job left','b4b9bbceb385ee7aa9746ff89113d9bd','["loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'detail','','loader',1,0,NULL,'provisional','cancelled by signal: 1 job left','dde115ce7ebcf352b8abe9787ce0e622','["listed/loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'detail','page','appender',4,0,NULL,'provisional','cancelled by signal: 1 job left','b36d237cf425cfe582629445f66977e6','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'detail','page','filter',3,0,NULL,'provisional','cancelled by signal: 1 job left','d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'detail','page','parser',2,0,NULL,'provisional','cancelled by signal: 1 job left','a572dcec1b2f7d1675cedfd171d3b592','["loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'listed','','loader',1,1,1.79590775695180964472e+09,'valid',NULL,'121eff39f5d14cc74538726e58065ce0','["seeder"]',0);
INSERT INTO "checkpoints" VALUES(1,'listed','','seeder',0,1,1.79590775577914261822e+09,'valid',NULL,'16948ec5a35cfc79adbe4d40616f88fc','[]',0);
INSERT INTO "checkpoints" VALUES(1,'listed','page','appender',4,1,1.79590775802319383615e+09,'valid',NULL,'ee4d443816276b6c5202110d451e0ea3','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'listed','page','filter',3,1,1.79590775695180964472e+09,'valid',NULL,'d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'listed','page','parser',2,1,1.79590775695180964472e+09,'valid',NULL,'851d0973b021a601e34bb8cc57946bd1','["loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'mapped','','loader',1,0,NULL,'provisional','cancelled by signal: 1 job left','121eff39f5d14cc74538726e58065ce0','["seeder"]',0);
INSERT INTO "checkpoints" VALUES(1,'mapped','','seeder',0,1,1.7959077557792110443e+09,'valid',NULL,'3e89346c33e2f787d1d1395559044733','[]',0);
INSERT INTO "checkpoints" VALUES(1,'mapped','page','appender',4,0,NULL,'provisional','cancelled by signal: 1 job left','d08fb4c39104334a99fc9d010d0ce001','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'mapped','page','filter',3,0,NULL,'provisional','cancelled by signal: 1 job left','d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'mapped','page','parser',2,0,NULL,'provisional','cancelled by signal: 1 job left','70d6a667ca6de02a05e9a6033185a4fa','["loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'members','','loader',1,0,NULL,'provisional','cancelled by signal: 1 job left','43d533e8a8c33ed9a980aa3c784f9661','["seeder"]',0);
INSERT INTO "checkpoints" VALUES(1,'members','','seeder',0,1,1.79590775577925395962e+09,'valid',NULL,'160215567e520f7dc326a32cda891471','[]',0);
INSERT INTO "checkpoints" VALUES(1,'members','page','appender',4,0,NULL,'provisional','cancelled by signal: 1 job left','f601df2e255ebe8648f7aec273db26f5','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'members','page','filter',3,0,NULL,'provisional','cancelled by signal: 1 job left','d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'members','page','parser',2,0,NULL,'provisional','cancelled by signal: 1 job left','fcee05f974df3b1592b6e009cb196b1e','["loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'posts','','loader',1,0,NULL,'provisional','cancelled by signal: 1 job left','b05f6e47331f78cabdf9a2961c40d5f5','["seeder"]',0);
INSERT INTO "checkpoints" VALUES(1,'posts','','seeder',0,1,1.79590775596762967109e+09,'valid',NULL,'91f4e37a172efbd595d29d556b49d0f6','[]',0);
INSERT INTO "checkpoints" VALUES(1,'posts','page','appender',4,0,NULL,'provisional','cancelled by signal: 1 job left','1d99c11288104e83f7ad3f509962a779','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'posts','page','filter',3,0,NULL,'provisional','cancelled by signal: 1 job left','d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'posts','page','parser',2,0,NULL,'provisional','cancelled by signal: 1 job left','cc178f0e3d4c971bad948065f13d2387','["loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'series','','loader',1,0,NULL,'provisional','cancelled by signal: 1 job left','121eff39f5d14cc74538726e58065ce0','["seeder"]',0);
INSERT INTO "checkpoints" VALUES(1,'series','','seeder',0,1,1.79590775601882791522e+09,'valid',NULL,'59f279d0b574897359da03a544e11182','[]',0);
INSERT INTO "checkpoints" VALUES(1,'series','page','appender',4,0,NULL,'provisional','cancelled by signal: 1 job left','d08fb4c39104334a99fc9d010d0ce001','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'series','page','filter',3,0,NULL,'provisional','cancelled by signal: 1 job left','d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'series','page','parser',2,0,NULL,'provisional','cancelled by signal: 1 job left','70d6a667ca6de02a05e9a6033185a4fa','["loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'stores','','loader',1,0,NULL,'provisional','cancelled by signal: 1 job left','e33d896433a9100abc55d415225dc493','["seeder"]',0);
INSERT INTO "checkpoints" VALUES(1,'stores','','seeder',0,1,1.79590775612696433062e+09,'valid',NULL,'5e34d2962888a49f014868d237df41e5','[]',0);
INSERT INTO "checkpoints" VALUES(1,'stores','page','appender',4,0,NULL,'provisional','cancelled by signal: 1 job left','1d99c11288104e83f7ad3f509962a779','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'stores','page','filter',3,0,NULL,'provisional','cancelled by signal: 1 job left','d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'stores','page','parser',2,0,NULL,'provisional','cancelled by signal: 1 job left','cc178f0e3d4c971bad948065f13d2387','["loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'table','','loader',1,0,NULL,'provisional','cancelled by signal: 1 job left','0feda1ef690c8862d830a8aa206ecc09','["seeder"]',0);
INSERT INTO "checkpoints" VALUES(1,'table','','seeder',0,1,1.79590775612832355499e+09,'valid',NULL,'4773acd815d4d8fbed8cd6f53bd5a14a','[]',0);
INSERT INTO "checkpoints" VALUES(1,'table','links','appender',4,0,NULL,'provisional','cancelled by signal: 1 job left','379075328396309e156532c83670c6a9','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'table','links','filter',3,0,NULL,'provisional','cancelled by signal: 1 job left','d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'table','links','parser',2,0,NULL,'provisional','cancelled by signal: 1 job left','b434d6c497b1007b0d44cc22570de1f8','["loader"]',0);
INSERT INTO "checkpoints" VALUES(1,'table','sheet','appender',4,0,NULL,'provisional','cancelled by signal: 1 job left','6e7a0ecf526ff06f94dcb8076e263396','["filter"]',0);
INSERT INTO "checkpoints" VALUES(1,'table','sheet','filter',3,0,NULL,'provisional','cancelled by signal: 1 job left','d1bad19f7f063078f5b3fd5938d8aff9','["parser"]',0);
INSERT INTO "checkpoints" VALUES(1,'table','sheet','parser',2,0,NULL,'provisional','cancelled by signal: 1 job left','ac3502222c725bd5fe979aa8138e4e83','["loader"]',0);
CREATE TABLE commands (
 id INTEGER PRIMARY KEY AUTOINCREMENT,
 supervisor INTEGER NOT NULL REFERENCES supervisors(epoch),
 name TEXT NOT NULL,
 arguments TEXT NOT NULL DEFAULT '{}',
 state TEXT NOT NULL DEFAULT 'NEW' CHECK (state IN ('NEW','DONE','REFUSED','EXPIRED')),
 answer TEXT,
 given_at REAL NOT NULL,
 ended_at REAL,
 given_by TEXT
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
INSERT INTO "content_sums" VALUES(1,'chained',2,X'2A208E1BA43E165063119F4819AB8E02',2,X'692CEE55B549D8902A350123A40B5E0A');
INSERT INTO "content_sums" VALUES(1,'detail',7,X'E6CC66A44761003A54552DD00AA7C7AB',7,X'60F19262F3BA87C5755367AE6CD4B31F');
INSERT INTO "content_sums" VALUES(1,'listed',1,X'DE1540FFAAC6A86EB8831BAF2B1C2A31',4,X'4C116255D09BF2CA1D850A5C5B4ED1D6');
INSERT INTO "content_sums" VALUES(1,'mapped',1,X'8575E69E598D088929686CE4B4ADF355',1,X'CEB024F5EC755DEB4106AF42BB46C078');
INSERT INTO "content_sums" VALUES(1,'members',2,X'9A39C122A32BD9829E2F45018EF47843',2,X'F6770887C016900FD3AE7C54D6C4C360');
INSERT INTO "content_sums" VALUES(1,'posts',4,X'C9CB482FE1806BBA80A5CF4F1EF77FBB',4,X'7953C9E88181CF0D8FD5283272C99613');
INSERT INTO "content_sums" VALUES(1,'series',2,X'C4BCB545B0FCD29FD19C49267929F1F9',2,X'CC7364C420F17476781DD3F889E1BBA8');
INSERT INTO "content_sums" VALUES(1,'stores',3,X'683A6775A9DC6DCE68C5F1D333842E4C',3,X'687156C62F3B47941654BEDA131B3838');
INSERT INTO "content_sums" VALUES(1,'table',1,X'E392ABB170423842DBF76A202E58BBAF',1,X'2EDB4F7603145444AD1D104350A69AAD');
CREATE TABLE cookie_jars (
 run INTEGER NOT NULL REFERENCES runs(seq),
 site TEXT NOT NULL,
 version INTEGER NOT NULL,
 node INTEGER NOT NULL,
 jar BLOB NOT NULL,
 PRIMARY KEY (run, site)
) WITHOUT ROWID;
INSERT INTO "cookie_jars" VALUES(1,'member.example',1,1,X'5B7B22636F6F6B6965223A7B2276657273696F6E223A302C226E616D65223A2273657373696F6E222C2276616C7565223A2231222C22706F7274223A6E756C6C2C22706F72745F737065636966696564223A66616C73652C22646F6D61696E223A226D656D6265722E6578616D706C65222C22646F6D61696E5F737065636966696564223A66616C73652C22646F6D61696E5F696E697469616C5F646F74223A66616C73652C2270617468223A222F222C22706174685F737065636966696564223A747275652C22736563757265223A66616C73652C2265787069726573223A6E756C6C2C2264697363617264223A747275652C22636F6D6D656E74223A6E756C6C2C22636F6D6D656E745F75726C223A6E756C6C2C2272666332313039223A66616C73657D2C226174223A313739353930373735362E363739353639377D5D');
CREATE TABLE data_defs (
 id INTEGER PRIMARY KEY,
 name TEXT NOT NULL,
 hash TEXT NOT NULL,
 UNIQUE (name, hash)
);
INSERT INTO "data_defs" VALUES(1,'chained','21d0e0c037fcb0e58aadb217711e7f09');
INSERT INTO "data_defs" VALUES(2,'detail','02b184b08549760dfb13e4c46e89d25a');
INSERT INTO "data_defs" VALUES(3,'listed','481a5d17c5d35f749ff3d4675d7c2b46');
INSERT INTO "data_defs" VALUES(4,'member','f81e07a9ecaa8bb62f500a5200c12068');
INSERT INTO "data_defs" VALUES(5,'more','34665bb664694bea853dcdc80554d969');
INSERT INTO "data_defs" VALUES(6,'page','0083575ea3ee1fa89b817249059fa9f8');
INSERT INTO "data_defs" VALUES(7,'plain','13c04b955b62212e4fc0d491be0da21e');
INSERT INTO "data_defs" VALUES(8,'sheet','2013112a0da821dc76abc67d2a172326');
CREATE TABLE def_versions (
 version INTEGER PRIMARY KEY,
 hash TEXT NOT NULL,
 definitions TEXT NOT NULL,
 accepted_at REAL NOT NULL
);
INSERT INTO "def_versions" VALUES(1,'5c7a6d223cb158181a0d49849d80a96b','{"appenders":[{"batch":null,"bom":false,"code":"","columns":[],"data_defs":[],"decimal":".","delimiter":",","escape_formulas":false,"flatten":false,"headers":{},"include_tags":false,"kind":"built-in","limit":null,"name":"rows","options":null,"path":null,"place":["",0,0],"price":null,"quoting":"minimal","run":[],"suffix":"","type":"csv","url":""}],"base_url":"http://shop.example/","data_defs":[{"axis":null,"block":".p","code":"","fields":[{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"shown","place":["defs/crawl.yml",39,14],"replace":[],"required":false,"scope":"page","selector":"h1","split":null,"type":"str","value":null,"whitespace":null},{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"at","place":["defs/crawl.yml",39,50],"replace":[],"required":false,"scope":null,"selector":"b","split":null,"type":"str","value":null,"whitespace":null}],"filters":[],"key":[],"links":[],"name":"chained","next":{"header":"","place":["defs/crawl.yml",40,11],"request":{"form":[],"has_form":false,"headers":[],"json":null,"method":null,"only_read":false,"url":"%{to}"},"until_empty":false,"variables":[["to","xpath://a/@href"]]},"place":["defs/crawl.yml",37,3],"sources":[],"unique":false},{"axis":null,"block":".p","code":"","fields":[{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"sku","place":["defs/crawl.yml",47,41],"replace":[],"required":false,"scope":null,"selector":null,"split":null,"type":"str","value":"%{carried.sku}","whitespace":null},{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"shown","place":["defs/crawl.yml",47,73],"replace":[],"required":false,"scope":"page","selector":"h1","split":null,"type":"str","value":null,"whitespace":null},{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"at","place":["defs/crawl.yml",47,109],"replace":[],"required":false,"scope":null,"selector":"b","split":null,"type":"str","value":null,"whitespace":null}],"filters":[],"key":[],"links":[],"name":"detail","next":null,"place":["defs/crawl.yml",47,3],"sources":[],"unique":false},{"axis":null,"block":"li","code":"","fields":[{"all":false,"attribute":"data-sku","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"sku","place":["defs/crawl.yml",43,14],"replace":[],"required":false,"scope":null,"selector":null,"split":null,"type":"str","value":null,"whitespace":null}],"filters":[],"key":[],"links":[{"allow":[],"attribute":"href","carry":["sku"],"deny":[],"group":"detail","in_block":true,"largest":false,"max_depth":null,"place":["defs/crawl.yml",45,9],"priority":null,"replace":[],"request":{"form":[],"has_form":false,"headers":[["X-Key","%{field.sku}"]],"json":null,"method":null,"only_read":false,"url":null},"same_host":true,"selector":"a","source":null,"submit":null},{"allow":[],"attribute":"href","carry":["sku"],"deny":[],"group":"detail","in_block":true,"largest":false,"max_depth":null,"place":["defs/crawl.yml",46,9],"priority":null,"replace":[],"request":{"form":[["sku","%{field.sku}"]],"has_form":true,"headers":[],"json":null,"method":null,"only_read":false,"url":"/api/stock"},"same_host":true,"selector":"","source":null,"submit":null}],"name":"listed","next":null,"place":["defs/crawl.yml",41,3],"sources":[],"unique":false},{"axis":null,"block":".p","code":"","fields":[{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"shown","place":["defs/crawl.yml",58,14],"replace":[],"required":false,"scope":"page","selector":"h1","split":null,"type":"str","value":null,"whitespace":null},{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"at","place":["defs/crawl.yml",58,50],"replace":[],"required":false,"scope":null,"selector":"b","split":null,"type":"str","value":null,"whitespace":null}],"filters":[],"key":[],"links":[{"allow":[],"attribute":"href","carry":[],"deny":[],"group":null,"in_block":false,"largest":false,"max_depth":null,"place":["defs/crawl.yml",59,13],"priority":null,"replace":[],"request":null,"same_host":true,"selector":"a","source":null,"submit":null}],"name":"member","next":null,"place":["defs/crawl.yml",56,3],"sources":[],"unique":false},{"axis":{"base_url":"http://shop.example/","block":"body","converters":[],"date_pattern":null,"dims":[{"break_after":[],"filters":[],"first":1,"last":1,"link_break_on":[],"link_group":null,"match":null,"name":"kind","place":["defs/crawl.yml",55,19],"prefix":[],"script":null,"selector":null,"value":"link"}],"fact_blank":"-","fact_not_found":"not found","facts":[{"break_after":[],"filters":[],"first":1,"last":1,"link_break_on":[],"link_group":null,"match":null,"name":"fact","place":["defs/crawl.yml",52,3],"prefix":[],"script":null,"selector":null,"value":null}],"flavour":"css","from_date":null,"items":[{"break_after":[],"filters":[],"first":1,"last":1,"link_break_on":[],"link_group":"table","match":null,"name":"link","place":["defs/crawl.yml",54,20],"prefix":[],"script":null,"selector":"a attribute: href","value":null}],"makes_links":true,"place":["defs/crawl.yml",52,3]},"block":null,"code":"","fields":[],"filters":[],"key":[],"links":[{"allow":[],"attribute":"href","carry":[],"deny":[],"group":"table","in_block":false,"largest":false,"max_depth":null,"place":["defs/crawl.yml",54,20],"priority":null,"replace":[],"request":null,"same_host":true,"selector":"a attribute: href","source":null,"submit":null}],"name":"more","next":null,"place":["defs/crawl.yml",52,3],"sources":[],"unique":false},{"axis":null,"block":".p","code":"","fields":[{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"by","place":["defs/crawl.yml",34,14],"replace":[],"required":false,"scope":null,"selector":null,"split":null,"type":"str","value":"%{locator.name}","whitespace":null},{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"shown","place":["defs/crawl.yml",34,46],"replace":[],"required":false,"scope":"page","selector":"h1","split":null,"type":"str","value":null,"whitespace":null},{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"at","place":["defs/crawl.yml",34,82],"replace":[],"required":false,"scope":null,"selector":"b","split":null,"type":"str","value":null,"whitespace":null}],"filters":[],"key":[],"links":[{"allow":[],"attribute":"href","carry":[],"deny":[],"group":null,"in_block":false,"largest":false,"max_depth":null,"place":["defs/crawl.yml",35,13],"priority":null,"replace":[],"request":null,"same_host":true,"selector":"a.next","source":null,"submit":null}],"name":"page","next":null,"place":["defs/crawl.yml",32,3],"sources":[],"unique":false},{"axis":null,"block":".p","code":"","fields":[{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"shown","place":["defs/crawl.yml",36,40],"replace":[],"required":false,"scope":"page","selector":"h1","split":null,"type":"str","value":null,"whitespace":null},{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"at","place":["defs/crawl.yml",36,76],"replace":[],"required":false,"scope":null,"selector":"b","split":null,"type":"str","value":null,"whitespace":null}],"filters":[],"key":[],"links":[],"name":"plain","next":null,"place":["defs/crawl.yml",36,3],"sources":[],"unique":false},{"axis":{"base_url":"http://shop.example/","block":"table","converters":[],"date_pattern":null,"dims":[{"break_after":[],"filters":[],"first":2,"last":2,"link_break_on":[],"link_group":null,"match":null,"name":"year","place":["defs/crawl.yml",51,19],"prefix":[],"script":null,"selector":"tr:nth-child(1) > td:nth-child(%{index})","value":null}],"fact_blank":"-","fact_not_found":"not found","facts":[{"break_after":[],"filters":[],"first":1,"last":1,"link_break_on":[],"link_group":null,"match":null,"name":"fact","place":["defs/crawl.yml",48,3],"prefix":[],"script":null,"selector":"tr:nth-child(%{item.index}) > td:nth-child(%{dim.year.index})","value":null}],"flavour":"css","from_date":null,"items":[{"break_after":[],"filters":[],"first":2,"last":2,"link_break_on":[],"link_group":null,"match":null,"name":"item","place":["defs/crawl.yml",50,20],"prefix":[],"script":null,"selector":"tr:nth-child(%{index}) > td:nth-child(1)","value":null}],"makes_links":false,"place":["defs/crawl.yml",48,3]},"block":null,"code":"","fields":[{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"locator","place":["defs/crawl.yml",48,3],"replace":[],"required":false,"scope":null,"selector":null,"split":null,"type":"str","value":null,"whitespace":null},{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"group","place":["defs/crawl.yml",48,3],"replace":[],"required":false,"scope":null,"selector":null,"split":null,"type":"str","value":null,"whitespace":null},{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"item","place":["defs/crawl.yml",48,3],"replace":[],"required":false,"scope":null,"selector":null,"split":null,"type":"str","value":null,"whitespace":null},{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"year","place":["defs/crawl.yml",48,3],"replace":[],"required":false,"scope":null,"selector":null,"split":null,"type":"str","value":null,"whitespace":null},{"all":false,"attribute":"text","column":null,"convert":[],"decimal_mark":null,"decode":null,"default":null,"fallbacks":[],"fields":[],"format":null,"from_step":false,"group_mark":null,"has_default":false,"join":"|","largest":false,"locales":[],"map":{},"match":null,"name":"fact","place":["defs/crawl.yml",48,3],"replace":[],"required":false,"scope":null,"selector":null,"split":null,"type":"str","value":null,"whitespace":null}],"filters":[],"key":[],"links":[],"name":"sheet","next":null,"place":["defs/crawl.yml",48,3],"sources":[],"unique":false}],"expectations":[],"files":["defs/crawl.yml"],"hosts":[{"auth":null,"blocked":[],"challenges":true,"concurrency":4,"cookie_jar":null,"cookies":{},"delay":null,"drop":[],"headers":{},"hours":null,"login":{"check":".in","form":{"password":"%{env.SHOP_PASSWORD}","user":"ann"},"on_lost":"relogin","selector":null,"submit":null,"url":"/login"},"middleware":[],"name":"member.example","nofollow":true,"place":["defs/crawl.yml",62,3],"private":null,"retry":null,"robots":false,"route":{"http2":false,"proxies":["%{env.SHOP_PROXY}"],"tls":null},"throttle":null},{"auth":null,"blocked":[],"challenges":true,"concurrency":16,"cookie_jar":null,"cookies":{},"delay":null,"drop":[],"headers":{},"hours":null,"login":null,"middleware":[],"name":"shop.example","nofollow":true,"place":["defs/crawl.yml",61,3],"private":null,"retry":null,"robots":false,"route":{"http2":false,"proxies":["%{env.SHOP_PROXY}"],"tls":null},"throttle":null}],"locator_groups":[{"locators":[{"body":null,"body_pieces":[],"content_type":null,"cookies":{"store":"north"},"from_file":null,"headers":{"X-Store":"north"},"method":"GET","name":"chained","place":["defs/crawl.yml",15,24],"seed_columns":null,"sitemap":null,"sitemap_rules":null,"until_empty":false,"urls":["/n/1"]}],"name":"chained","place":["defs/crawl.yml",15,3]},{"locators":[{"body":null,"body_pieces":[],"content_type":null,"cookies":{},"from_file":null,"headers":{},"method":"GET","name":"listed","place":["defs/crawl.yml",16,23],"seed_columns":null,"sitemap":null,"sitemap_rules":null,"until_empty":false,"urls":["/list"]}],"name":"listed","place":["defs/crawl.yml",16,3]},{"locators":[{"body":null,"body_pieces":[],"content_type":null,"cookies":{},"from_file":null,"headers":{},"method":"GET","name":"mapped","place":["defs/crawl.yml",14,23],"seed_columns":null,"sitemap":"/map.xml","sitemap_rules":{"allow":["/m/"],"deny":[],"links":[],"since":null},"until_empty":false,"urls":[]}],"name":"mapped","place":["defs/crawl.yml",14,3]},{"locators":[{"body":null,"body_pieces":[],"content_type":null,"cookies":{},"from_file":null,"headers":{},"method":"GET","name":"members","place":["defs/crawl.yml",18,24],"seed_columns":null,"sitemap":null,"sitemap_rules":null,"until_empty":false,"urls":["http://member.example/k/1"]}],"name":"members","place":["defs/crawl.yml",18,3]},{"locators":[{"body":"q={tea,coffee}","body_pieces":["q=","{tea,coffee}",""],"content_type":"application/x-www-form-urlencoded","cookies":{},"from_file":null,"headers":{"X-Store":"north"},"method":"POST","name":"form","place":["defs/crawl.yml",11,9],"seed_columns":null,"sitemap":null,"sitemap_rules":null,"until_empty":false,"urls":["/find"]},{"body":"{\"page\":\"{1..3}\"}","body_pieces":["{\"page\":\"","{1..3}","\"}"],"content_type":"application/json","cookies":{},"from_file":null,"headers":{},"method":"POST","name":"json","place":["defs/crawl.yml",12,9],"seed_columns":null,"sitemap":null,"sitemap_rules":null,"until_empty":false,"urls":["/api"]}],"name":"posts","place":["defs/crawl.yml",9,3]},{"locators":[{"body":null,"body_pieces":[],"content_type":null,"cookies":{"store":"north"},"from_file":null,"headers":{},"method":"GET","name":"series","place":["defs/crawl.yml",13,23],"seed_columns":null,"sitemap":null,"sitemap_rules":null,"until_empty":true,"urls":["/s/{1..}"]}],"name":"series","place":["defs/crawl.yml",13,3]},{"locators":[{"body":null,"body_pieces":[],"content_type":null,"cookies":{"store":"%{env.SHOP_KEY}"},"from_file":null,"headers":{"X-Store":"north"},"method":"GET","name":"north","place":["defs/crawl.yml",6,9],"seed_columns":null,"sitemap":null,"sitemap_rules":null,"until_empty":false,"urls":["/store/1"]},{"body":null,"body_pieces":[],"content_type":null,"cookies":{},"from_file":null,"headers":{"X-Key":"%{env.SHOP_KEY}","X-Store":"south"},"method":"GET","name":"south","place":["defs/crawl.yml",7,9],"seed_columns":null,"sitemap":null,"sitemap_rules":null,"until_empty":false,"urls":["/store/2"]},{"body":null,"body_pieces":[],"content_type":null,"cookies":{},"from_file":null,"headers":{},"method":"GET","name":"ann","place":["defs/crawl.yml",8,9],"seed_columns":null,"sitemap":null,"sitemap_rules":null,"until_empty":false,"urls":["http://ann:%{env.SHOP_PASSWORD}@shop.example/store/1"]}],"name":"stores","place":["defs/crawl.yml",4,3]},{"locators":[{"body":null,"body_pieces":[],"content_type":null,"cookies":{},"from_file":null,"headers":{},"method":"GET","name":"acme","place":["defs/crawl.yml",17,22],"seed_columns":null,"sitemap":null,"sitemap_rules":null,"until_empty":false,"urls":["/t/1"]}],"name":"table","place":["defs/crawl.yml",17,3]}],"plugins":[],"task_groups":[{"canonical":false,"documents":true,"live":null,"loader":null,"max_depth":null,"max_pages":null,"name":"chained","place":["defs/crawl.yml",24,3],"priority":0,"recrawl":null,"revalidate":false,"tasks":[{"chain":[],"code":"","data_def":"chained","loader_code":"","name":"page","place":["defs/crawl.yml",24,13],"steps":null}]},{"canonical":false,"documents":true,"live":null,"loader":null,"max_depth":null,"max_pages":null,"name":"detail","place":["defs/crawl.yml",26,3],"priority":0,"recrawl":null,"revalidate":false,"tasks":[{"chain":[],"code":"","data_def":"detail","loader_code":"","name":"page","place":["defs/crawl.yml",26,12],"steps":null}]},{"canonical":false,"documents":true,"live":null,"loader":null,"max_depth":null,"max_pages":null,"name":"listed","place":["defs/crawl.yml",25,3],"priority":0,"recrawl":null,"revalidate":false,"tasks":[{"chain":[],"code":"","data_def":"listed","loader_code":"","name":"page","place":["defs/crawl.yml",25,12],"steps":null}]},{"canonical":false,"documents":true,"live":null,"loader":null,"max_depth":null,"max_pages":null,"name":"mapped","place":["defs/crawl.yml",23,3],"priority":0,"recrawl":null,"revalidate":false,"tasks":[{"chain":[],"code":"","data_def":"plain","loader_code":"","name":"page","place":["defs/crawl.yml",23,12],"steps":null}]},{"canonical":false,"documents":true,"live":null,"loader":null,"max_depth":null,"max_pages":null,"name":"members","place":["defs/crawl.yml",30,3],"priority":0,"recrawl":null,"revalidate":false,"tasks":[{"chain":[],"code":"","data_def":"member","loader_code":"","name":"page","place":["defs/crawl.yml",30,13],"steps":null}]},{"canonical":false,"documents":true,"live":null,"loader":null,"max_depth":null,"max_pages":null,"name":"posts","place":["defs/crawl.yml",21,3],"priority":0,"recrawl":null,"revalidate":false,"tasks":[{"chain":[],"code":"","data_def":"page","loader_code":"","name":"page","place":["defs/crawl.yml",21,11],"steps":null}]},{"canonical":false,"documents":true,"live":null,"loader":null,"max_depth":null,"max_pages":null,"name":"series","place":["defs/crawl.yml",22,3],"priority":0,"recrawl":null,"revalidate":false,"tasks":[{"chain":[],"code":"","data_def":"plain","loader_code":"","name":"page","place":["defs/crawl.yml",22,12],"steps":null}]},{"canonical":false,"documents":true,"live":null,"loader":null,"max_depth":null,"max_pages":null,"name":"stores","place":["defs/crawl.yml",20,3],"priority":0,"recrawl":null,"revalidate":false,"tasks":[{"chain":[],"code":"","data_def":"page","loader_code":"","name":"page","place":["defs/crawl.yml",20,12],"steps":null}]},{"canonical":false,"documents":true,"live":null,"loader":null,"max_depth":null,"max_pages":null,"name":"table","place":["defs/crawl.yml",27,3],"priority":0,"recrawl":null,"revalidate":false,"tasks":[{"chain":[],"code":"","data_def":"sheet","loader_code":"","name":"sheet","place":["defs/crawl.yml",28,5],"steps":null},{"chain":[],"code":"","data_def":"more","loader_code":"","name":"links","place":["defs/crawl.yml",29,5],"steps":null}]}]}',1.79590775545043134691e+09);
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
INSERT INTO "documents" VALUES(1,1,X'132ED8E5F42C7E61238DA79DCF5C1D75','http://shop.example/find',200,'text/html; charset=utf-8',1.79590775638907504084e+09,85,0,X'4D7FD8D745AC6C732FFE0C2B761DEEE7',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(2,1,X'3F621775D5FBDBFFCA20CB74D1D73335','http://shop.example/find',200,'text/html; charset=utf-8',1.79590775639157271392e+09,88,0,X'EB86085140FDCCDB07E3D7AA3B026397',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(3,1,X'10B70938E460074CE3644789110AB128','http://shop.example/api',200,'text/html; charset=utf-8',1.79590775639231538772e+09,77,0,X'51B1B86DB3AFFEAF61B56F10A3FF6FC7',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(4,1,X'DC76934927B40386032622E7E060AAAA','http://shop.example/api',200,'text/html; charset=utf-8',1.79590775639298057559e+09,77,0,X'3F13AE99A72633BCE70E7C68C9D7BD76',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(5,1,X'E5FA50A1B408178F9DA6234BBD96AB79','http://shop.example/s/1',200,'text/html; charset=utf-8',1.79590775639632654189e+09,86,0,X'151E349E4EC745480942ED31CC9CD1B9',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(6,1,X'18F05545A82E94A88CC3C83F32C12EEB','http://shop.example/store/1',200,'text/html; charset=utf-8',1.79590775639790153506e+09,132,0,X'813431B7E39F955009739C36DBCC958B',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(7,1,X'C80F53C5513F63E574C7E0A3037826AA','http://shop.example/store/2',200,'text/html; charset=utf-8',1.79590775640813922874e+09,126,0,X'CA07546583659D82B6204CA6F4F54A30',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(8,1,X'68C504288268D57FE498B4EA981A6697','http://shop.example/s/2',200,'text/html; charset=utf-8',1.79590775651329493519e+09,86,0,X'AF9E80A762358D57C8595BF4AC8D2040',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(9,1,X'9DA7B123A0A61AC6374A05BEAC65F7D5','http://shop.example/store/1',200,'text/html; charset=utf-8',1.79590775653450965883e+09,137,0,X'1CFEE15842D73AFBA93208F562C24E91',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(10,1,X'F2FB82857D18CE6D37E6407F537E4C23','http://shop.example/n/1',200,'text/html; charset=utf-8',1.79590775631636738775e+09,125,0,X'4FA28303F4D717BEB5CA79DC3AA476D7',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(11,1,X'9B0F91F13A6B2DD675A6B0D493D55ABA','http://shop.example/m/1',200,'text/html; charset=utf-8',1.79590775653645467755e+09,75,0,X'8575E69E598D088929686CE4B4ADF355',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(12,1,X'8053D9E2004C30380A144D3E2EC9932B','http://shop.example/list',200,'text/html; charset=utf-8',1.79590775637097692495e+09,237,0,X'DE1540FFAAC6A86EB8831BAF2B1C2A31',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(13,1,X'6C332B9F44857CC4A5D16D8B4C7EB514','http://shop.example/t/1',200,'text/html; charset=utf-8',1.79590775640872168539e+09,142,0,X'E392ABB170423842DBF76A202E58BBAF',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(14,1,X'1A12F40E7A8986F26C7BE5AC1577D93C','http://member.example/k/1',200,'text/html; charset=utf-8',1.79590775677458453179e+09,123,0,X'6C862EF459847532CC2D151BE1B197B9',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(15,1,X'68F3C5DF1076360474AF0915E6760076','http://shop.example/d/1',200,'text/html; charset=utf-8',1.7959077567764372826e+09,76,0,X'FBCC6C37E550D29FB272E83C9287A4D7',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(16,1,X'5F402293E578EF5091D64F4748121CED','http://shop.example/api/stock',200,'text/html; charset=utf-8',1.79590775678904032708e+09,83,0,X'EE20468BAFD20E75F8DDC8018FEF1232',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(17,1,X'713EB112548C1BCEE781F735A04D31C4','http://shop.example/d/2',200,'text/html; charset=utf-8',1.7959077567898488045e+09,76,0,X'84DA23C47460FA61F9DC9B843818084A',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(18,1,X'CF1D713BFE174C523CDAFC413F74AF16','http://shop.example/api/stock',200,'text/html; charset=utf-8',1.79590775679329872128e+09,83,0,X'17D15B0328CF00DBF4B7F9DC85D3BA20',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(19,1,X'00638710AD7D4F5BDC47C6AB2CCDB491','http://shop.example/api/stock',200,'text/html; charset=utf-8',1.79590775679369020457e+09,83,0,X'E900E21218E3712A293575179E1CF73B',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(20,1,X'4348B1254C708914F79A69319A35834C','http://shop.example/n/2',200,'text/html; charset=utf-8',1.79590775676529669762e+09,125,0,X'DA7E0B17AF66FE91AD47256BDF07172B',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(21,1,X'F2C37AA9401614D797112994DD3EAE02','http://shop.example/d/4',200,'text/html; charset=utf-8',1.79590775681840825075e+09,76,0,X'D9FB1178AD12A3A8141A27DC5D9F97B0',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(22,1,X'011CE748D121FC7D435D8F434976CC20','http://shop.example/api/stock',200,'text/html; charset=utf-8',1.79590775681972265247e+09,83,0,X'9D38418E4F180F147D204B3D2E88BF4D',NULL,NULL,NULL);
INSERT INTO "documents" VALUES(23,1,X'FC020131C20BFA4E0321D2F1C33E0B42','http://member.example/k/2',200,'text/html; charset=utf-8',1.79590775688569045066e+09,123,0,X'2DB3922E49A7644FD2022FE5AD42E08A',NULL,NULL,NULL);
CREATE TABLE double_rows (
 id INTEGER PRIMARY KEY AUTOINCREMENT,
 run INTEGER NOT NULL REFERENCES runs(seq),
 job INTEGER NOT NULL REFERENCES jobs(id),
 data_def INTEGER NOT NULL REFERENCES data_defs(id),
 key BLOB NOT NULL,
 data TEXT NOT NULL,
 digest BLOB
);
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
INSERT INTO "field_health" VALUES(1,1,6,'shown',0,2);
INSERT INTO "field_health" VALUES(2,1,6,'at',0,0);
INSERT INTO "field_health" VALUES(3,1,7,'shown',0,1);
INSERT INTO "field_health" VALUES(4,1,7,'at',0,0);
INSERT INTO "field_health" VALUES(5,1,1,'shown',0,0);
INSERT INTO "field_health" VALUES(6,1,1,'at',0,0);
INSERT INTO "field_health" VALUES(7,1,3,'sku',0,0);
INSERT INTO "field_health" VALUES(8,1,8,'item',0,0);
INSERT INTO "field_health" VALUES(9,1,8,'year',0,0);
INSERT INTO "field_health" VALUES(10,1,8,'fact',0,0);
INSERT INTO "field_health" VALUES(11,1,4,'shown',0,0);
INSERT INTO "field_health" VALUES(12,1,4,'at',0,0);
INSERT INTO "field_health" VALUES(13,1,2,'shown',0,4);
INSERT INTO "field_health" VALUES(14,1,2,'at',0,0);
CREATE TABLE files ( -- what jobs of the kind 'file' downloaded; the newest of a job counts
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
INSERT INTO "health" VALUES(1,1,2,2,0,0);
INSERT INTO "health" VALUES(1,2,7,7,0,0);
INSERT INTO "health" VALUES(1,3,1,4,0,0);
INSERT INTO "health" VALUES(1,4,2,2,0,0);
INSERT INTO "health" VALUES(1,6,7,7,0,0);
INSERT INTO "health" VALUES(1,7,3,3,0,0);
INSERT INTO "health" VALUES(1,8,1,1,0,0);
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
 files TEXT NOT NULL,
 key BLOB
);
CREATE TABLE host_answers (
 host INTEGER NOT NULL REFERENCES hosts(id),
 status INTEGER NOT NULL,
 answers INTEGER NOT NULL,
 PRIMARY KEY (host, status)
) WITHOUT ROWID;
INSERT INTO "host_answers" VALUES(1,0,7);
INSERT INTO "host_answers" VALUES(1,200,22);
INSERT INTO "host_answers" VALUES(2,0,1);
INSERT INTO "host_answers" VALUES(2,200,4);
CREATE TABLE host_health (
 host INTEGER NOT NULL REFERENCES hosts(id),
 data_def INTEGER NOT NULL REFERENCES data_defs(id),
 field TEXT NOT NULL,
 pages INTEGER NOT NULL,
 records INTEGER NOT NULL,
 rejected INTEGER NOT NULL,
 PRIMARY KEY (host, data_def, field)
) WITHOUT ROWID;
INSERT INTO "host_health" VALUES(1,1,'',2,2,0);
INSERT INTO "host_health" VALUES(1,2,'',7,7,0);
INSERT INTO "host_health" VALUES(1,2,'shown',0,4,0);
INSERT INTO "host_health" VALUES(1,3,'',1,4,0);
INSERT INTO "host_health" VALUES(1,6,'',7,7,0);
INSERT INTO "host_health" VALUES(1,6,'shown',0,2,0);
INSERT INTO "host_health" VALUES(1,7,'',3,3,0);
INSERT INTO "host_health" VALUES(1,7,'shown',0,1,0);
INSERT INTO "host_health" VALUES(1,8,'',1,1,0);
INSERT INTO "host_health" VALUES(2,4,'',2,2,0);
CREATE TABLE host_latencies (
 host INTEGER NOT NULL REFERENCES hosts(id),
 bucket INTEGER NOT NULL,
 answers INTEGER NOT NULL,
 PRIMARY KEY (host, bucket)
) WITHOUT ROWID;
INSERT INTO "host_latencies" VALUES(1,30,1);
INSERT INTO "host_latencies" VALUES(1,33,1);
INSERT INTO "host_latencies" VALUES(1,38,1);
INSERT INTO "host_latencies" VALUES(1,41,2);
INSERT INTO "host_latencies" VALUES(1,42,1);
INSERT INTO "host_latencies" VALUES(1,43,3);
INSERT INTO "host_latencies" VALUES(1,49,2);
INSERT INTO "host_latencies" VALUES(1,54,1);
INSERT INTO "host_latencies" VALUES(1,55,7);
INSERT INTO "host_latencies" VALUES(1,56,2);
INSERT INTO "host_latencies" VALUES(1,67,1);
INSERT INTO "host_latencies" VALUES(2,30,1);
INSERT INTO "host_latencies" VALUES(2,31,1);
INSERT INTO "host_latencies" VALUES(2,38,1);
INSERT INTO "host_latencies" VALUES(2,56,1);
CREATE TABLE host_speeds (
 host INTEGER PRIMARY KEY REFERENCES hosts(id),
 run INTEGER NOT NULL REFERENCES runs(seq),
 bytes INTEGER NOT NULL DEFAULT 0,
 measured_at REAL NOT NULL DEFAULT 0,
 p50 REAL,
 p95 REAL,
 recent_p50 TEXT,
 eta REAL,
 state TEXT,
 pages_per_s REAL NOT NULL DEFAULT 0,
 silent_since REAL
);
INSERT INTO "host_speeds" VALUES(1,1,2310,4310.008398673,0.0697924948905765,1.27468825876509900263e-01,'[0.0697924948905765,null,null,null,null,null]',NULL,'silent',0.0,4281.0);
INSERT INTO "host_speeds" VALUES(2,1,421,4310.008398673,1.4672064691274739126e-02,1.25875303506039593059e-01,'[0.014672064691274739,null,null,null,null,null]',NULL,'silent',0.0,4281.0);
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
 throttle INTEGER NOT NULL DEFAULT 0, -- 1: the delay follows the host's latency
 pace REAL NOT NULL DEFAULT 1,
 least_pace REAL NOT NULL DEFAULT 0,
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
 lent_until REAL, -- how long its machine keeps it; null: while its number is that machine's
 UNIQUE (run, key)
);
INSERT INTO "hosts" VALUES(1,1,'shop.example:80','http://shop.example',0.0,0.0,16,0.0,NULL,NULL,NULL,0,NULL,0,7,'OFF',NULL,NULL,1,NULL,NULL,NULL,0,1.0,0.0,0,0,1,NULL,NULL,0,'OFF',0,NULL,0,NULL);
INSERT INTO "hosts" VALUES(2,1,'member.example:80','http://member.example',0.0,0.0,4,0.0,NULL,NULL,NULL,0,NULL,0,1,'OFF',NULL,NULL,1,NULL,NULL,NULL,0,1.0,0.0,0,0,1,NULL,NULL,0,'DONE',1,NULL,0,NULL);
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
 root INTEGER, -- the locator's job from which this one descends
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
INSERT INTO "jobs" VALUES(1,1,1,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',1,NULL,10,1,NULL,NULL,'http://shop.example/n/1',NULL,NULL,1.79590775671399545667e+09,X'3ED02FD7C77FCCCA590A8BACA5AB452A',X'F426F4375BD5D9F52D2653B65C8ECBAE',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(2,1,2,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',2,NULL,12,1,NULL,NULL,'http://shop.example/list',NULL,NULL,1.79590775671399545667e+09,X'7626C57E59EFABC4E9097F905876E790',X'562AC2E2D7B5D85AA7279107086FD3EA',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(3,1,3,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',3,NULL,NULL,1,NULL,NULL,'http://shop.example/map.xml',NULL,NULL,1.79590775645400881769e+09,NULL,X'95631903D6A1BE68F402CAB2E28280DD',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(4,1,4,'DONE',0,NULL,NULL,1,1,0,0,0,'link',NULL,NULL,NULL,1,NULL,NULL,'http://member.example/login',NULL,NULL,1.79590775671399545667e+09,NULL,X'D7265291397B04D9FB79209B1A6C9754',0,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(5,1,5,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',4,NULL,14,1,NULL,NULL,'http://member.example/k/1',NULL,NULL,1.79590775683199906347e+09,X'D781FC667CB0B7800142BEA9B1C28D22',X'2D88C4738F622F87EDF106296344E96A',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(6,1,6,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',5,NULL,1,1,NULL,NULL,'http://shop.example/find',NULL,NULL,1.79590775645400881769e+09,NULL,X'2524EB0E56F425157A36003019CE6581',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(7,1,6,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',6,NULL,2,1,NULL,NULL,'http://shop.example/find',NULL,NULL,1.79590775645400881769e+09,NULL,X'B542171232ADC69E67AC62F1F5229C22',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(8,1,6,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',7,NULL,3,1,NULL,NULL,'http://shop.example/api',NULL,NULL,1.79590775645400881769e+09,NULL,X'A7E509F9EA21953685A5AD489F665076',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(9,1,6,'READY',0,4.31020919326010061925e+03,NULL,1,1,0,0,0,'locator',8,NULL,NULL,1,NULL,NULL,'http://shop.example/api',NULL,'timeout after 30 s',1.79590778633399152756e+09,NULL,X'3E4EA6E548F44FB425B02CA804A7EEE2',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(10,1,6,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',9,NULL,4,1,NULL,NULL,'http://shop.example/api',NULL,NULL,1.79590775645400881769e+09,NULL,X'027AA7195F99398F1877F12C50673C61',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(11,1,7,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',10,NULL,5,1,NULL,NULL,'http://shop.example/s/1',NULL,NULL,1.79590775645400881769e+09,X'36BB7BD42AA23D291760BD87A0804C43',X'EAA5032B9759C30041A265192D0F4E2B',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(12,1,8,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',11,NULL,6,1,NULL,NULL,'http://shop.example/store/1',NULL,NULL,1.79590775645400881769e+09,X'619CB0A59EE9B39A5FF4C618786422BA',X'25E5B6C1AD414C7EB5FEBD99339E85CA',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(13,1,8,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',12,NULL,7,1,NULL,NULL,'http://shop.example/store/2',NULL,NULL,1.79590775645400881769e+09,X'09B568DDF556D63AFC9E39E2E75D300E',X'D74DDC0EB16AFE775AB48974A9202E64',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(14,1,8,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',13,NULL,9,1,NULL,NULL,'http://shop.example/store/1',NULL,NULL,1.79590775671399545667e+09,X'619CB0A59EE9B39A5FF4C618786422BA',X'78CAC3E865A24E59F17C3EB63A4B722D',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(15,1,9,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',14,NULL,13,1,NULL,NULL,'http://shop.example/t/1',NULL,NULL,1.79590775671399545667e+09,X'5BFF67AA7B7874B268955F3A024938A9',X'447D00FF6BF19C79DB959713DE26123E',1,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(16,1,7,'DONE',0,NULL,NULL,1,1,0,0,0,'locator',10,NULL,8,1,NULL,NULL,'http://shop.example/s/2',NULL,NULL,1.79590775671399545667e+09,X'AAB29C19F5DA70BA18C192530EE8DCE4',X'20640381331E5A359CC0E8C5009E1858',1,11,'["GET",null,null,"link",2]','[{},"97634ac9ab75f3622235120a0ec07640"]',NULL);
INSERT INTO "jobs" VALUES(17,1,10,'DONE',0,NULL,NULL,1,1,0,0,0,'link',3,3,11,1,NULL,NULL,'http://shop.example/m/1',NULL,NULL,1.79590775671399545667e+09,NULL,X'3214982A1FB0B24A78DD48E210654322',0,3,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(18,1,10,'READY',0,4.31029751081946506038e+03,NULL,1,1,0,0,0,'link',3,3,NULL,1,NULL,NULL,'http://shop.example/m/2',NULL,'timeout after 30 s',1.79590778661799716948e+09,NULL,X'61DE0224ECFF6FF2B630481278C7930E',0,3,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(19,1,8,'READY',0,4.31041682731053606408e+03,NULL,1,1,0,0,1,'link',12,13,NULL,1,NULL,NULL,'http://shop.example/store/3',NULL,'timeout after 30 s',1.79590778661799716948e+09,NULL,X'578837457B01EAA44690FCAE47D83859',0,13,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(20,1,7,'READY',0,4.31046619882100276281e+03,NULL,1,1,0,0,0,'locator',10,NULL,NULL,1,NULL,NULL,'http://shop.example/s/3',NULL,'timeout after 30 s',1.79590778676601505285e+09,X'475A4812E7121E4CE58658F097E39A89',X'23A8BEE36093D7099916CBE3FD457BE9',1,16,'["GET",null,null,"link",3]','[{},"9085833d0753d6491ad7aab07d2bd7df"]',NULL);
INSERT INTO "jobs" VALUES(21,1,1,'DONE',0,NULL,NULL,1,1,0,0,0,'link',1,1,20,1,NULL,NULL,'http://shop.example/n/2',NULL,NULL,1.79590775683199906347e+09,X'E275E9C211AC6B42AD00AAF058A0741A',X'869E93E9EAC8F791DA546296ABE76364',0,1,'["GET",null,null,"next",null]',NULL,NULL);
INSERT INTO "jobs" VALUES(22,1,11,'DONE',0,NULL,NULL,1,1,0,0,1,'link',2,2,15,1,NULL,NULL,'http://shop.example/d/1',NULL,NULL,1.79590775683199906347e+09,NULL,X'A2FD1662A652C2E33BDC8184D42152F3',0,2,'["GET",null,null,"link",null,[["X-Key","1"]]]','[{"sku":"1"},""]',NULL);
INSERT INTO "jobs" VALUES(23,1,11,'DONE',0,NULL,NULL,1,1,0,0,1,'link',2,2,16,1,NULL,NULL,'http://shop.example/api/stock',NULL,NULL,1.79590775683199906347e+09,NULL,X'E02DE7A9F209AD99B0D2DAFB8EEC11CB',0,2,'["POST","sku=1","application/x-www-form-urlencoded","link",null]','[{"sku":"1"},""]',NULL);
INSERT INTO "jobs" VALUES(24,1,11,'DONE',0,NULL,NULL,1,1,0,0,1,'link',2,2,17,1,NULL,NULL,'http://shop.example/d/2',NULL,NULL,1.79590775683199906347e+09,NULL,X'93F10C0E09CB1E94B19BCC056DF37FB6',0,2,'["GET",null,null,"link",null,[["X-Key","2"]]]','[{"sku":"2"},""]',NULL);
INSERT INTO "jobs" VALUES(25,1,11,'DONE',0,NULL,NULL,1,1,0,0,1,'link',2,2,18,1,NULL,NULL,'http://shop.example/api/stock',NULL,NULL,1.79590775683199906347e+09,NULL,X'5EAC2E345F479D5A1064352AC66129C2',0,2,'["POST","sku=2","application/x-www-form-urlencoded","link",null]','[{"sku":"2"},""]',NULL);
INSERT INTO "jobs" VALUES(26,1,11,'READY',0,4.31027153670223742674e+03,NULL,1,1,0,0,1,'link',2,2,NULL,1,NULL,NULL,'http://shop.example/d/3',NULL,'timeout after 30 s',1.79590778676601505285e+09,NULL,X'8FBFDC30857E19EFB8FCC74C6546A2B4',0,2,'["GET",null,null,"link",null,[["X-Key","3"]]]','[{"sku":"3"},""]',NULL);
INSERT INTO "jobs" VALUES(27,1,11,'DONE',0,NULL,NULL,1,1,0,0,1,'link',2,2,19,1,NULL,NULL,'http://shop.example/api/stock',NULL,NULL,1.79590775683199906347e+09,NULL,X'2FC7BE4A2134728A19F77AA4679539CD',0,2,'["POST","sku=3","application/x-www-form-urlencoded","link",null]','[{"sku":"3"},""]',NULL);
INSERT INTO "jobs" VALUES(28,1,11,'DONE',0,NULL,NULL,1,1,0,0,1,'link',2,2,21,1,NULL,NULL,'http://shop.example/d/4',NULL,NULL,1.79590775683199906347e+09,NULL,X'6B44638727CB85D0C2C3CF7CCDD257CA',0,2,'["GET",null,null,"link",null,[["X-Key","4"]]]','[{"sku":"4"},""]',NULL);
INSERT INTO "jobs" VALUES(29,1,11,'DONE',0,NULL,NULL,1,1,0,0,1,'link',2,2,22,1,NULL,NULL,'http://shop.example/api/stock',NULL,NULL,1.79590775683199906347e+09,NULL,X'2491DB35F1FC3F933B1A53F6E07980D8',0,2,'["POST","sku=4","application/x-www-form-urlencoded","link",null]','[{"sku":"4"},""]',NULL);
INSERT INTO "jobs" VALUES(30,1,9,'READY',0,4.31046795500698135591e+03,NULL,1,1,0,0,1,'link',14,15,NULL,1,NULL,NULL,'http://shop.example/t/2',NULL,'timeout after 30 s',1.79590778676601505285e+09,NULL,X'6E08568C3E0F51C9DACE818CB4E4F5AF',0,15,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(32,1,1,'READY',0,4.31066870802458470277e+03,NULL,1,1,0,0,0,'link',1,1,NULL,1,NULL,NULL,'http://shop.example/n/3',NULL,'timeout after 30 s',1.79590778687299489979e+09,X'4BA45B4FB00F73649B7E8A552097F612',X'4273C78FABE5E9DEEEB4F7049FA7484D',0,21,'["GET",null,null,"next",null]',NULL,NULL);
INSERT INTO "jobs" VALUES(33,1,5,'DONE',0,NULL,NULL,1,1,0,0,1,'link',4,5,23,1,NULL,NULL,'http://member.example/k/2',NULL,NULL,1.79590775695901513093e+09,NULL,X'02F3E925C0E3D998861734E54DFBA44E',0,5,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(34,1,5,'READY',0,4.31063471383990236057e+03,NULL,1,1,0,0,2,'link',4,5,NULL,1,NULL,NULL,'http://member.example/k/3',NULL,'timeout after 30 s',1.79590778697498583797e+09,NULL,X'2698648DDAA63DB35C522BC8E75FA87E',0,33,NULL,NULL,NULL);
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
INSERT INTO "locators" VALUES(1,1,'chained','chained','{"method":"GET","headers":[["X-Store","north"]],"cookies":[["store","north"]],"body":null,"content_type":null}');
INSERT INTO "locators" VALUES(2,1,'listed','listed','{"method":"GET","headers":[],"cookies":[],"body":null,"content_type":null}');
INSERT INTO "locators" VALUES(3,1,'mapped','mapped','{"method":"GET","headers":[],"cookies":[],"body":null,"content_type":null,"sitemap":{"allow":["/m/"],"deny":[],"links":[],"since":null}}');
INSERT INTO "locators" VALUES(4,1,'members','members','{"method":"GET","headers":[],"cookies":[],"body":null,"content_type":null}');
INSERT INTO "locators" VALUES(5,1,'posts','form','{"method":"POST","headers":[["X-Store","north"]],"cookies":[],"body":"q=tea","content_type":"application/x-www-form-urlencoded"}');
INSERT INTO "locators" VALUES(6,1,'posts','form','{"method":"POST","headers":[["X-Store","north"]],"cookies":[],"body":"q=coffee","content_type":"application/x-www-form-urlencoded"}');
INSERT INTO "locators" VALUES(7,1,'posts','json','{"method":"POST","headers":[],"cookies":[],"body":"{\"page\":\"1\"}","content_type":"application/json"}');
INSERT INTO "locators" VALUES(8,1,'posts','json','{"method":"POST","headers":[],"cookies":[],"body":"{\"page\":\"2\"}","content_type":"application/json"}');
INSERT INTO "locators" VALUES(9,1,'posts','json','{"method":"POST","headers":[],"cookies":[],"body":"{\"page\":\"3\"}","content_type":"application/json"}');
INSERT INTO "locators" VALUES(10,1,'series','series','{"method":"GET","headers":[],"cookies":[["store","north"]],"body":null,"content_type":null,"series":{"url":["http://shop.example/s/",""],"body":[],"first":1,"last":null,"width":0,"step":1}}');
INSERT INTO "locators" VALUES(11,1,'stores','north','{"method":"GET","headers":[["X-Store","north"]],"cookies":[["store","%{env.SHOP_KEY}"]],"body":null,"content_type":null}');
INSERT INTO "locators" VALUES(12,1,'stores','south','{"method":"GET","headers":[["X-Store","south"],["X-Key","%{env.SHOP_KEY}"]],"cookies":[],"body":null,"content_type":null}');
INSERT INTO "locators" VALUES(13,1,'stores','ann','{"method":"GET","headers":[],"cookies":[],"body":null,"content_type":null,"userinfo":"ann:%{env.SHOP_PASSWORD}"}');
INSERT INTO "locators" VALUES(14,1,'table','acme','{"method":"GET","headers":[],"cookies":[],"body":null,"content_type":null}');
CREATE TABLE meta (
 name TEXT PRIMARY KEY,
 value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO "meta" VALUES('boot','ebcd6009-52fb-4284-8f94-307bfa7e022b 4310.195306487');
INSERT INTO "meta" VALUES('defs_problems','[]');
INSERT INTO "meta" VALUES('defs_saved','null');
INSERT INTO "meta" VALUES('helpers','[]');
INSERT INTO "meta" VALUES('identity','498cd36af173b49d42a2f493b13f5785');
INSERT INTO "meta" VALUES('settings','{"nodes":{"least":1,"most":1},"node_wait":5.0,"node_idle":60.0,"backups":0,"quorum":1,"concurrency":32,"batch":32,"grace":25.0,"stop_within":null,"node_drain":1800.0,"file_drain":300.0,"send_drain":15.0,"output_every":600.0,"heart_timeout":1.0,"start_timeout":20.0,"deadline":30.0,"max_attempts":4,"max_body":10000000,"max_file":1000000000,"max_redirects":10,"seed_retries":3,"max_failed":0,"min_rows":null,"max_rejected":null,"robots":true,"user_agent":"crawl-console/0.1.0","contact":null,"meta_nofollow":true,"meta_noindex":false,"meta_refresh":true,"throttle":"off","host_clock":true,"delay":0.0,"host_concurrency":8,"live":"PT0S","documents":true,"on_reload":"reextract","on_save":"publish","refresh":2.0,"parse_limit":5.0,"parse_memory":400000000,"browser":null,"browsers":1,"browser_pages":4,"browser_memory":2000000000,"browser_sandbox":true,"max_links":50000,"max_repeats":null,"cpu_affinity":"auto","max_pages":null,"max_time":null,"min_free":64000000,"keep_runs":null,"keep_pages":null,"keep_events":null,"max_data":null,"store":null,"project":null,"page_store":null,"helpers":null,"on_start":null,"on_end":null,"on_alarm":null,"notify":null,"base_url":null,"allow_file":false,"default_steps":"jsoupDefault","fact_blank":"-","fact_not_found":"not found","date_time_pattern":null,"run_time":null}');
CREATE TABLE metrics (
 run INTEGER NOT NULL REFERENCES runs(seq),
 grp TEXT NOT NULL, -- '' for robots.txt
 fetches INTEGER NOT NULL DEFAULT 0,
 fetch_seconds REAL NOT NULL DEFAULT 0,
 bytes INTEGER NOT NULL DEFAULT 0,
 retries INTEGER NOT NULL DEFAULT 0,
 noindex INTEGER NOT NULL DEFAULT 0,
 requests INTEGER NOT NULL DEFAULT 0,
 plain INTEGER NOT NULL DEFAULT 0,
 rendered INTEGER NOT NULL DEFAULT 0,
 PRIMARY KEY (run, grp)
) WITHOUT ROWID;
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
 browsers TEXT,
 UNIQUE (run, number)
);
INSERT INTO "nodes" VALUES(1,1,1,1,'TERMINATED','RUNNER','APPARENT_DEATH','ebcd6009-52fb-4284-8f94-307bfa7e022b:19072:427870',19072,NULL,1.79590775564466786388e+09,1.79590778710505652427e+09,'stopped gracefully',0.0638018790004935,0,23,0,65794048,0.0,'',0.0,0.0,NULL);
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
INSERT INTO "outputs" VALUES(1,1,'rows','csv','chained','/srv/shop/data/output/ab1572/chained.csv','{"columns":["shown","at"],"delimiter":",","joins":{},"types":{"at":"str","shown":"str"}}',26,60,2,2293986,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(2,1,'rows','csv','detail','/srv/shop/data/output/ab1572/detail.csv','{"columns":["sku","shown","at"],"delimiter":",","joins":{},"types":{"at":"str","shown":"str","sku":"str"}}',26,112,7,2293987,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(3,1,'rows','csv','listed','/srv/shop/data/output/ab1572/listed.csv','{"columns":["sku"],"delimiter":",","joins":{},"types":{"sku":"str"}}',26,17,4,2293988,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(4,1,'rows','csv','member','/srv/shop/data/output/ab1572/member.csv','{"columns":["shown","at"],"delimiter":",","joins":{},"types":{"at":"str","shown":"str"}}',26,42,2,2293989,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(5,1,'rows','csv','page','/srv/shop/data/output/ab1572/page.csv','{"columns":["by","shown","at"],"delimiter":",","joins":{},"types":{"at":"str","by":"str","shown":"str"}}',26,187,7,2293990,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(6,1,'rows','csv','plain','/srv/shop/data/output/ab1572/plain.csv','{"columns":["shown","at"],"delimiter":",","joins":{},"types":{"at":"str","shown":"str"}}',26,53,3,2293991,0,NULL,0,NULL);
INSERT INTO "outputs" VALUES(7,1,'rows','csv','sheet','/srv/shop/data/output/ab1572/sheet.csv','{"columns":["locator","group","item","year","fact"],"delimiter":",","joins":{},"types":{"fact":"str","group":"str","item":"str","locator":"str","year":"str"}}',26,56,1,2293992,0,NULL,0,NULL);
CREATE TABLE page_defs (
 version INTEGER NOT NULL REFERENCES def_versions(version),
 grp TEXT NOT NULL,
 hash TEXT NOT NULL,
 data_defs TEXT NOT NULL,
 follow TEXT NOT NULL,
 PRIMARY KEY (version, grp)
) WITHOUT ROWID;
INSERT INTO "page_defs" VALUES(1,'chained','99dcdad7c8eeef8251050ee2821ce7cf','[1]','9b705743dd85968087babf9ff0d04676');
INSERT INTO "page_defs" VALUES(1,'detail','9f94c1945fd735066ada87bb136fef03','[2]','');
INSERT INTO "page_defs" VALUES(1,'listed','00def47cefdecffc86da0cd7edcd80c4','[3]','75fbffeccdb6d90590039072e25a49d4');
INSERT INTO "page_defs" VALUES(1,'mapped','b442fbcfb50800b8446a86844b6946b5','[7]','');
INSERT INTO "page_defs" VALUES(1,'members','3f4a2a58438c21399f6dc83f9ae3a801','[4]','4c83d8697be8043c50fc57f552481bb7');
INSERT INTO "page_defs" VALUES(1,'posts','9f6d52571f7fbe32f1151803c62e66ac','[6]','b4e22f8eb9372e2669e028f9f8536f69');
INSERT INTO "page_defs" VALUES(1,'series','b442fbcfb50800b8446a86844b6946b5','[7]','');
INSERT INTO "page_defs" VALUES(1,'stores','6befb5eed0bb05ed84d7acd9b6cf51f4','[6]','34c5afd91c484dc90fc6fd0906abbcd9');
INSERT INTO "page_defs" VALUES(1,'table','38222f46ea9f64630fa07ad0348019e4','[8,5]','1a4749121aa95820e28624644d6a60b1');
CREATE TABLE page_health (
 job INTEGER NOT NULL REFERENCES jobs(id),
 data_def INTEGER NOT NULL REFERENCES data_defs(id),
 records INTEGER NOT NULL,
 rejected INTEGER NOT NULL,
 missing TEXT,
 filtered INTEGER NOT NULL,
 PRIMARY KEY (job, data_def)
) WITHOUT ROWID;
INSERT INTO "page_health" VALUES(1,1,1,0,NULL,0);
INSERT INTO "page_health" VALUES(2,3,4,0,NULL,0);
INSERT INTO "page_health" VALUES(5,4,1,0,NULL,0);
INSERT INTO "page_health" VALUES(6,6,1,0,NULL,0);
INSERT INTO "page_health" VALUES(7,6,1,0,NULL,0);
INSERT INTO "page_health" VALUES(8,6,1,0,'{"shown":1}',0);
INSERT INTO "page_health" VALUES(10,6,1,0,'{"shown":1}',0);
INSERT INTO "page_health" VALUES(11,7,1,0,NULL,0);
INSERT INTO "page_health" VALUES(12,6,1,0,NULL,0);
INSERT INTO "page_health" VALUES(13,6,1,0,NULL,0);
INSERT INTO "page_health" VALUES(14,6,1,0,NULL,0);
INSERT INTO "page_health" VALUES(15,8,1,0,NULL,0);
INSERT INTO "page_health" VALUES(16,7,1,0,NULL,0);
INSERT INTO "page_health" VALUES(17,7,1,0,'{"shown":1}',0);
INSERT INTO "page_health" VALUES(21,1,1,0,NULL,0);
INSERT INTO "page_health" VALUES(22,2,1,0,NULL,0);
INSERT INTO "page_health" VALUES(23,2,1,0,'{"shown":1}',0);
INSERT INTO "page_health" VALUES(24,2,1,0,NULL,0);
INSERT INTO "page_health" VALUES(25,2,1,0,'{"shown":1}',0);
INSERT INTO "page_health" VALUES(27,2,1,0,'{"shown":1}',0);
INSERT INTO "page_health" VALUES(28,2,1,0,NULL,0);
INSERT INTO "page_health" VALUES(29,2,1,0,'{"shown":1}',0);
INSERT INTO "page_health" VALUES(33,4,1,0,NULL,0);
CREATE TABLE page_repeats (
 sequence INTEGER PRIMARY KEY REFERENCES sequences(id),
 digest INTEGER NOT NULL,
 pages INTEGER NOT NULL,
 pattern TEXT NOT NULL,
 longest INTEGER NOT NULL,
 longest_pattern TEXT NOT NULL,
 skipped INTEGER NOT NULL
);
INSERT INTO "page_repeats" VALUES(1,4236828132115773768,1,'http://shop.example/n/2',0,'',0);
INSERT INTO "page_repeats" VALUES(2,8237262858235048208,1,'http://shop.example/list',0,'',0);
INSERT INTO "page_repeats" VALUES(5,9081953385117180345,1,'http://member.example/k/2',0,'',0);
INSERT INTO "page_repeats" VALUES(7,5264502467020950200,1,'http://shop.example/s/2',0,'',0);
INSERT INTO "page_repeats" VALUES(8,5438982423495132968,1,'http://shop.example/store/1',0,'',0);
INSERT INTO "page_repeats" VALUES(9,5226702459284051697,1,'http://shop.example/t/1',0,'',0);
INSERT INTO "page_repeats" VALUES(10,6425957688253630844,1,'http://shop.example/m/1',0,'',0);
INSERT INTO "page_repeats" VALUES(11,2984777553300706686,1,'http://shop.example/d/4',0,'',0);
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
 duplicates INTEGER NOT NULL DEFAULT 0,
 PRIMARY KEY (run, data_def)
) WITHOUT ROWID;
INSERT INTO "row_counts" VALUES(1,'chained',2,0,0,0);
INSERT INTO "row_counts" VALUES(1,'detail',7,0,0,0);
INSERT INTO "row_counts" VALUES(1,'listed',4,0,0,0);
INSERT INTO "row_counts" VALUES(1,'member',2,0,0,0);
INSERT INTO "row_counts" VALUES(1,'page',7,0,0,0);
INSERT INTO "row_counts" VALUES(1,'plain',3,0,0,0);
INSERT INTO "row_counts" VALUES(1,'sheet',1,0,0,0);
CREATE TABLE rows (
 id INTEGER PRIMARY KEY AUTOINCREMENT,
 run INTEGER NOT NULL REFERENCES runs(seq),
 job INTEGER NOT NULL REFERENCES jobs(id),
 data_def INTEGER NOT NULL REFERENCES data_defs(id),
 key BLOB,
 data TEXT NOT NULL,
 digest BLOB
);
INSERT INTO "rows" VALUES(1,1,6,6,NULL,'{"by":"form","shown":"north","at":"/find tea"}',X'C24A6A92D19DEDE370B7722E5E40751B');
INSERT INTO "rows" VALUES(2,1,7,6,NULL,'{"by":"form","shown":"north","at":"/find coffee"}',X'10610F58A1078A1663DE8373C12FAC63');
INSERT INTO "rows" VALUES(3,1,8,6,NULL,'{"by":"json","shown":null,"at":"/api 1"}',X'D815B39A21862F9E19DC6A75513A5EF5');
INSERT INTO "rows" VALUES(4,1,10,6,NULL,'{"by":"json","shown":null,"at":"/api 3"}',X'CE929C62ED562775A162C81B021F15A0');
INSERT INTO "rows" VALUES(5,1,11,7,NULL,'{"shown":"store=north","at":"/s/1"}',X'234CF7A39D47FF62B9A2D93A09E72604');
INSERT INTO "rows" VALUES(6,1,12,6,NULL,'{"by":"north","shown":"north; store=k-42","at":"/store/1"}',X'4EEC622E7AC98EBB95E304E71169C72D');
INSERT INTO "rows" VALUES(7,1,13,6,NULL,'{"by":"south","shown":"south; k-42","at":"/store/2"}',X'6B4801AB80F363C1503E14BA64772ECB');
INSERT INTO "rows" VALUES(8,1,16,7,NULL,'{"shown":"store=north","at":"/s/2"}',X'A9266D2083A97513BE7AFABE7FFA95A4');
INSERT INTO "rows" VALUES(9,1,14,6,NULL,'{"by":"ann","shown":"Basic YW5uOmh1bnRlcjI=","at":"/store/1"}',X'AE3CF2EC337E55173033A5389D3A4240');
INSERT INTO "rows" VALUES(10,1,1,1,NULL,'{"shown":"north; store=north","at":"/n/1"}',X'EAA4DA6FE7F855C236E14AE350028846');
INSERT INTO "rows" VALUES(11,1,17,7,NULL,'{"shown":null,"at":"/m/1"}',X'CEB024F5EC755DEB4106AF42BB46C078');
INSERT INTO "rows" VALUES(12,1,2,3,NULL,'{"sku":"1"}',X'2FB70B529FF7639E2BA3AC3A3303E230');
INSERT INTO "rows" VALUES(13,1,2,3,NULL,'{"sku":"2"}',X'12192A137FF96A6C7C6171521ED36FF1');
INSERT INTO "rows" VALUES(14,1,2,3,NULL,'{"sku":"3"}',X'EBCCA72BA954C6FF18EBD0E414B60DC0');
INSERT INTO "rows" VALUES(15,1,2,3,NULL,'{"sku":"4"}',X'1E7485C407565DC05C941BEBF4C171F5');
INSERT INTO "rows" VALUES(16,1,15,8,NULL,'{"locator":"acme","group":"table","item":"sales","year":"2024","fact":"17"}',X'2EDB4F7603145444AD1D104350A69AAD');
INSERT INTO "rows" VALUES(17,1,5,4,NULL,'{"shown":"session=1","at":"/k/1"}',X'4089887BA869EA2AF18D94B9F8E04B15');
INSERT INTO "rows" VALUES(18,1,22,2,NULL,'{"sku":"1","shown":"1","at":"/d/1"}',X'D1E1F27EA7F2FA5A8B7284444682A4A4');
INSERT INTO "rows" VALUES(19,1,23,2,NULL,'{"sku":"1","shown":null,"at":"/api/stock 1"}',X'43ABF65BCBCDE1414C3392E237C7E219');
INSERT INTO "rows" VALUES(20,1,24,2,NULL,'{"sku":"2","shown":"2","at":"/d/2"}',X'2538B95F7F01FB41677B355590E37052');
INSERT INTO "rows" VALUES(21,1,25,2,NULL,'{"sku":"2","shown":null,"at":"/api/stock 2"}',X'1B27B6C49D06C3C44B2425BEB131B1AD');
INSERT INTO "rows" VALUES(22,1,27,2,NULL,'{"sku":"3","shown":null,"at":"/api/stock 3"}',X'040592B8C9B2340CC91C31AB3527437D');
INSERT INTO "rows" VALUES(23,1,21,1,NULL,'{"shown":"north; store=north","at":"/n/2"}',X'7E8813E5CD5182CDF353B6405408D5C4');
INSERT INTO "rows" VALUES(24,1,28,2,NULL,'{"sku":"4","shown":"4","at":"/d/4"}',X'BD646B20050A279C3582FA4DD2E7FBFB');
INSERT INTO "rows" VALUES(25,1,29,2,NULL,'{"sku":"4","shown":null,"at":"/api/stock 4"}',X'49993B8B9534917AEC6EC97AA465CAEB');
INSERT INTO "rows" VALUES(26,1,33,4,NULL,'{"shown":"session=1","at":"/k/2"}',X'B5ED800C17ACA5E4E220E79ADDE4784B');
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
 paused TEXT, -- reason: 'operator', 'disk', 'operator, disk'; null: not paused
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
INSERT INTO "runs" VALUES(1,'ab1572','CANCELLED','SHUTDOWN_COMPLETE','cancelled by signal',1.79590775543412828449e+09,1.79590775543412828449e+09,1.79590778716219878199e+09,3.16148839769994083326e+01,1,1,NULL,NULL,0,0,NULL,0,'{"pages_per_s":0.0,"rows_per_s":0.0,"queue_per_s":0.0,"nodes":{"n1":0.0},"outputs":{"rows/chained":{"rows_per_s":0.0,"bytes_per_s":0.0},"rows/detail":{"rows_per_s":0.0,"bytes_per_s":0.0},"rows/listed":{"rows_per_s":0.0,"bytes_per_s":0.0},"rows/member":{"rows_per_s":0.0,"bytes_per_s":0.0},"rows/page":{"rows_per_s":0.0,"bytes_per_s":0.0},"rows/plain":{"rows_per_s":0.0,"bytes_per_s":0.0},"rows/sheet":{"rows_per_s":0.0,"bytes_per_s":0.0}},"hosts":[{"state":"silent","count":2,"names":["shop.example:80","member.example:80"]}],"share":null,"growing":[],"eta":{"seconds":null,"bound_by":"shop.example:80","exact":false,"reason":"shop.example:80 silent 29 s","paused":0},"eta_at":4310.195275711}',NULL,0,0,0,'{}',NULL,'{}',NULL,NULL,'[]','[{"code":"failing-requests","text":"7 bad of 28 answers of shop.example:80","level":"warn","host":"shop.example:80","data_def":null,"field":null,"subject":null,"count":1,"members":[],"since":1795907787.197126,"acknowledged":false}]',NULL,143);
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
 ready INTEGER NOT NULL DEFAULT 0, -- due jobs only; those with not_before are 'delayed'
 delayed INTEGER NOT NULL DEFAULT 0,
 taken INTEGER NOT NULL DEFAULT 0,
 done INTEGER NOT NULL DEFAULT 0,
 failed INTEGER NOT NULL DEFAULT 0,
 skipped INTEGER NOT NULL DEFAULT 0,
 incomplete INTEGER NOT NULL DEFAULT 0,
 UNIQUE (run, grp, host, kind)
);
INSERT INTO "sequences" VALUES(1,1,1,'page','chained',NULL,0,0,NULL,0,1,0,2,0,0,0);
INSERT INTO "sequences" VALUES(2,1,1,'page','listed',NULL,0,0,NULL,0,0,0,1,0,0,0);
INSERT INTO "sequences" VALUES(3,1,1,'sitemap','mapped',NULL,0,0,NULL,0,0,0,1,0,0,0);
INSERT INTO "sequences" VALUES(4,1,2,'login','',NULL,0,0,NULL,0,0,0,1,0,0,0);
INSERT INTO "sequences" VALUES(5,1,2,'page','members',NULL,0,0,NULL,0,1,0,2,0,0,0);
INSERT INTO "sequences" VALUES(6,1,1,'page','posts',NULL,0,0,NULL,0,1,0,4,0,0,0);
INSERT INTO "sequences" VALUES(7,1,1,'page','series',NULL,0,0,NULL,0,1,0,2,0,0,0);
INSERT INTO "sequences" VALUES(8,1,1,'page','stores',NULL,0,0,NULL,0,1,0,3,0,0,0);
INSERT INTO "sequences" VALUES(9,1,1,'page','table',NULL,0,0,NULL,0,1,0,1,0,0,0);
INSERT INTO "sequences" VALUES(10,1,1,'page','mapped',NULL,0,0,NULL,0,1,0,1,0,0,0);
INSERT INTO "sequences" VALUES(11,1,1,'page','detail',NULL,0,0,NULL,0,1,0,7,0,0,0);
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
INSERT INTO "supervisors" VALUES(1,'ebcd6009-52fb-4284-8f94-307bfa7e022b:19005:427475',1,'','','LEADER',0,NULL,1.79590775543412828449e+09,1.79590778716219878199e+09);
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
CREATE INDEX nodes_living ON nodes(run) WHERE ended_at IS NULL;
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
CREATE UNIQUE INDEX rows_key ON rows(run, key) WHERE key IS NOT NULL;
CREATE INDEX double_rows_job ON double_rows(job);
CREATE INDEX double_rows_key ON double_rows(run, key);
CREATE INDEX commands_new ON commands(supervisor) WHERE state = 'NEW';
CREATE INDEX events_job ON events(job) WHERE job IS NOT NULL;
CREATE INDEX events_trouble ON events(run, id) WHERE level <> 'INFO';
CREATE INDEX host_health_rejected ON host_health(host) WHERE rejected > 0;
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
INSERT INTO "sqlite_sequence" VALUES('events',56);
INSERT INTO "sqlite_sequence" VALUES('runs',1);
INSERT INTO "sqlite_sequence" VALUES('supervisors',1);
INSERT INTO "sqlite_sequence" VALUES('appenders',1);
INSERT INTO "sqlite_sequence" VALUES('nodes',1);
INSERT INTO "sqlite_sequence" VALUES('jobs',34);
INSERT INTO "sqlite_sequence" VALUES('rows',26);
COMMIT;
