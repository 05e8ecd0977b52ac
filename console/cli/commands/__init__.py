"""The table of CLI commands: module, function and one-line help of each; then their examples."""

import click

from engine.installed import COMMANDS as GROUP
from engine.installed import NameTable

COMMANDS = {
    "run": ("work.run:run", "Resume the unfinished run, else start a new one."),
    "check": ("defs.check:check", "Validate defs."),
    "plan": ("defs.plan:plan", "Show what publishing the defs on disk would change."),
    "steps": ("defs.steps:steps", "Show the steps of the tasks, and the classes that defs may name."),
    "try": ("defs.try_page:try_", "Show the rows and links of one page."),
    "test": ("defs.golden:test", "Compare the rows of saved pages with those of the defs."),
    "shell": ("defs.shell:shell", "Type selectors and see what they match on a page."),
    "status": ("look.status:status", "Show the state of the run."),
    "runs": ("data.runs:runs", "List, show or delete the runs of the data directory."),
    "series": ("look.series:series", "Show one field of the rows over the runs."),
    "config": ("look.config:config", "Show the settings, and where their values come from."),
    "state": ("look.state:state", "Show which steps of the run are complete."),
    "export": ("data.export:export", "Write the rows of the latest run."),
    "pages": ("data.pages:pages", "List, show or delete stored pages."),
    "files": ("data.files:files", "Delete downloaded files of old runs."),
    "vacuum": ("data.vacuum:vacuum", "Return the free space of the databases to the disk."),
    "backup": ("data.backup:backup", "Copy the data directory, also while a crawl runs."),
    "store": ("data.store:store", "Copy a crawl from SQLite into PostgreSQL, or back."),
    "query": ("data.query:query", "Run one read-only SQL statement on the data."),
    "reload": ("work.control:reload", "Reload the defs from disk."),
    "extract": ("work.run:extract", "Re-extract the stored pages of the latest run."),
    "cancel": ("work.control:cancel", "Stop the run gracefully."),
    "kill": ("work.control:kill", "Kill the run, or one node."),
    "drain": ("work.control:drain", "Drain one node and retire it."),
    "restart": ("work.control:restart", "Drain one node and replace it."),
    "scale": ("work.control:scale", "Set the number of runner nodes, or a range."),
    "pause": ("work.control:pause", "Pause the run, or one sequence."),
    "resume": ("work.control:resume", "Resume after `pause`."),
    "host": ("work.control:host", "Pause a host, or set its delay and concurrency."),
    "stop": ("work.control:stop", "Skip what waits in one sequence."),
    "seed": ("work.jobs:seed", "Add URLs to a group of the latest run."),
    "jobs": ("work.jobs:jobs", "List the jobs of the latest run."),
    "job": ("look.job:job", "Show one job in full."),
    "retry": ("work.jobs:retry", "Requeue failed jobs of the latest run."),
    "exclude": ("work.jobs:exclude", "Take queued jobs out of the latest run."),
    "results": ("look.results:results", "Show what your own steps reported of pages."),
    "events": ("look.events:events", "Show the events of the latest run."),
    "logs": ("look.logs:logs", "Show the log files of the processes."),
    "completion": ("look.completion:completion", "Print the script with which a shell completes lines."),
    "init": ("defs.init:init", "Create a project."),
    "schema": ("defs.init:schema", "Print the JSON Schema of the defs."),
    "demo": ("work.demo:demo", "Serve a small shop on loopback and crawl it."),
}
"""One line per command. A module is imported when its command is invoked, not for the list of `--help`."""

EXAMPLES = {
    "run": ("run --no-ui -o books.csv", "run --fresh --max-pages 20"),
    "check": ("check", "check defs/books.yml --json"),
    "plan": ("plan", "plan --full"),
    "steps": ("steps books/list", "steps --available"),
    "try": (
        "try book https://shop.example/p/1",
        "try book page.html --url https://shop.example/p/1",
        "try book --job 17",
    ),
    "test": ("test", "test --record https://shop.example/p/1 --data-def book", "test book --update"),
    "shell": ("shell https://shop.example/p/1", "shell page.html --url https://shop.example/p/1"),
    "status": ("status", "status --run 3fa2c1 --json", "status --all shops/*/data"),
    "runs": ("runs show 3fa2c1", "runs delete 3fa2c1", "runs prune --keep 10 --yes"),
    "series": ("series product price --key SKU-17", "series product price --plot", "series product price --csv"),
    "config": ("config", "config delay", "config --set nodes=4 --json"),
    "state": ("state", "state --verify"),
    "export": ("export book -o books.csv", "export book --changes --format jsonl", "export --run 3fa2c1 -o books.db"),
    "pages": (
        "pages list --match '/p/' --json",
        "pages show https://shop.example/p/1 --body",
        "pages prune --keep 1 --yes",
    ),
    "files": ("files prune --keep 2", "files prune --older-than P30D --yes"),
    "vacuum": ("vacuum", "vacuum --data shops/north --json"),
    "backup": ("backup /backups/shop", "backup /backups/shop --json"),
    "store": ("store copy data postgresql://db.example/crawls --project shop",),
    "query": ('query "SELECT state, count(*) FROM jobs GROUP BY state"',),
    "reload": ("reload",),
    "extract": ("extract book",),
    "cancel": ("cancel", "cancel --data shops/north"),
    "kill": ("kill", "kill n2"),
    "drain": ("drain n2",),
    "restart": ("restart n2",),
    "scale": ("scale 4", "scale 1-8"),
    "pause": ("pause", "pause books@shop.example:443"),
    "resume": ("resume", "resume books@shop.example:443"),
    "host": ("host shop.example --delay 2s --concurrency 1", "host shop.example --pause"),
    "stop": ("stop books@shop.example:443",),
    "seed": ("seed books https://shop.example/p/1 https://shop.example/p/2", "seed books --from urls.txt"),
    "jobs": ("jobs --state failed --limit 20", "jobs --match 'host:shop.example attempts>2' --json"),
    "job": ("job 17", "job 17 --body"),
    "retry": ("retry", "retry --match 'reason:\"HTTP 500\"'"),
    "exclude": ("exclude --match /calendar/ --dry-run",),
    "results": ("results --outcome error --limit 20", "results 17"),
    "events": ("events -f", "events --level warning --match source:n1"),
    "logs": ("logs n2 --limit 50", "logs -f"),
    "completion": ("completion bash",),
    "init": ("init shop",),
    "schema": ("schema",),
    "demo": ("demo", "demo --no-ui --pages 200 --errors 5"),
}
"""Lines that end the help of a command, as they are typed behind `crawl-console`."""


def installed_commands() -> NameTable[click.Command]:
    """The commands of packages; a built-in name has no command here."""
    built_in = dict.fromkeys(COMMANDS, click.Command(None))
    return NameTable(GROUP, built_in, lambda entry: isinstance(entry, click.Command), "a click.Command")
