"""The registry of commands: name, the attribute that holds it in a module of this package, and its one-line help."""

COMMANDS = {
    "run": ("run:run", "Resume the unfinished run, else start a new one."),
    "check": ("check:check", "Validate defs."),
    "try": ("try_page:try_", "Show the rows and links of one page."),
    "shell": ("shell:shell", "Type selectors and see what they match on a page."),
    "status": ("status:status", "Show the state of the run."),
    "runs": ("runs:runs", "List the runs of the data directory, or show one."),
    "state": ("state:state", "Show which steps of the run are complete."),
    "export": ("export:export", "Write the rows of the latest run."),
    "reload": ("control:reload", "Reload the defs from disk."),
    "extract": ("extract:extract", "Re-extract the stored pages of the latest run."),
    "cancel": ("control:cancel", "Stop the run gracefully."),
    "kill": ("control:kill", "Kill the run, or one node."),
    "drain": ("control:drain", "Drain one node and retire it."),
    "restart": ("control:restart", "Drain one node and replace it."),
    "scale": ("control:scale", "Set the number of runner nodes."),
    "pause": ("control:pause", "Pause the run, or one sequence."),
    "resume": ("control:resume", "Resume after `pause`."),
    "jobs": ("jobs:jobs", "List the jobs of the latest run."),
    "retry": ("retry:retry", "Requeue failed jobs of the latest run."),
    "events": ("events:events", "Show the events of the latest run."),
    "logs": ("logs:logs", "Show the log files of the processes."),
    "init": ("init:init", "Create a project."),
    "schema": ("schema:schema", "Print the JSON Schema of the defs."),
    "demo": ("demo:demo", "Serve a small shop on loopback and crawl it."),
}
"""One line per command. A module is imported when its command is invoked, not for the list of `--help`."""
