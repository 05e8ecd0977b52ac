"""The command `notify`: tries the receivers of the setting `notify`."""

import click

from crawl_console.cli.options import common_options, object_option
from crawl_console.cli.output import write_json, write_lines
from crawl_engine.errors import UsageError


@click.command()
@click.option("--test", "test", is_flag=True, help="Send a message to each receiver, and say who got it.")
@object_option
@common_options("assigned")
def notify(test: bool, as_json: bool, assigned: dict[str, str]) -> int:
    """Try the receivers of messages about runs and alarms."""
    from crawl_console.notify.receivers import DEADLINE_SECONDS, Order, call_sender, load_receivers, name_receiver
    from crawl_engine.settings import load_settings

    if not test:
        raise UsageError("notify: what to do?", "Write `crawl-console notify --test`.")
    urls = load_settings(assigned).notify
    if not urls:
        raise UsageError(
            "notify: no receiver is set", 'Write for example notify = ["jsons://hooks.example/crawl"] into crawl.toml.'
        )
    resolved = load_receivers(urls)
    order = Order(urls=resolved, title="crawl-console: a test", body="Messages arrive here.", as_json=True)
    failures = call_sender(order, 2 * DEADLINE_SECONDS)
    named = [(name_receiver(number, url), why) for number, (url, why) in enumerate(zip(urls, failures, strict=True), 1)]
    if as_json:
        write_json({"receivers": [{"receiver": name, "sent": why is None, "error": why} for name, why in named]})
    else:
        write_lines(*(f"{name}: {why or 'sent'}" for name, why in named))
    return 1 if any(failures) else 0
