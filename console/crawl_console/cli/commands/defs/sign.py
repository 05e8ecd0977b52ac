"""The command `sign`: makes a key, the directory of public keys, and tries a signed request."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from crawl_console.cli.options import (
    FilePath,
    arguments_option,
    common_options,
    defs_option,
    load_defs,
    object_option,
)
from crawl_console.cli.output import write_json, write_lines
from crawl_engine.errors import CrawlError, StorageError, UsageError

if TYPE_CHECKING:
    from crawl_engine.model.definition import Definitions
    from crawl_engine.model.host import SignRule
    from crawl_engine.runtime.signing_key import SigningKey
    from crawl_engine.settings import Settings

_DIRECTORY_PATH = "/.well-known/http-message-signatures-directory"
_DIRECTORY_TYPE = "application/http-message-signatures-directory+json"
_DAY = 86_400
_BAD = 400


@click.command()
@click.option("--new-key", "new_key", type=FilePath(dir_okay=False), metavar="FILE", help="Make a key in a new file.")
@click.option("--directory", is_flag=True, help="Print the answer that tells the public keys, itself signed.")
@click.option("--try", "try_url", metavar="URL", help="Send one signed request, and say what came back.")
@click.option("--agent", metavar="URL", help="With --directory: of which `agent`, if the defs have several.")
@click.option("--days", type=click.IntRange(1, 365), default=7, show_default=True, help="How long it is valid.")
@defs_option
@arguments_option
@object_option
@common_options("data", "assigned")
def sign(
    new_key: Path | None, directory: bool, try_url: str | None, agent: str | None, days: int, defs: Path, data: Path,
    assigned: dict[str, str], arguments: dict[str, str], as_json: bool,
) -> int:  # fmt: skip
    """Sign requests, so that sites know who asks (Web Bot Auth)."""
    from crawl_engine.runtime.extras import require_extra

    if [new_key is not None, directory, try_url is not None].count(True) != 1:
        raise UsageError("sign: what to do?", "Give one of --new-key FILE, --directory and --try URL.")
    if agent is not None and not directory:
        raise UsageError("--agent chooses what --directory prints", "Give both, or leave it out.")
    require_extra("sign", "`sign`")
    if new_key is not None:
        return _make_key(new_key, as_json=as_json)
    definitions, settings = load_defs(defs, assigned, arguments, data, None)
    if try_url is not None:
        return _try(try_url, definitions, settings, as_json=as_json)
    return _print_directory(definitions, agent, days, as_json=as_json)


def _make_key(file: Path, *, as_json: bool) -> int:
    from crawl_engine.runtime.signing_key import SigningKey

    key = SigningKey.new()
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(key.to_pem())
            os.fsync(stream.fileno())
    except FileExistsError:
        raise UsageError(f"{file}: exists, and may be a key in use", "Name a new file.") from None
    except OSError as error:
        raise StorageError(f"{file}: {error.strerror}", "Name another file.") from error
    if as_json:
        write_json({"file": str(file), "keyid": key.thumbprint, "jwk": key.jwk()})
        return 0
    write_lines(
        f"{file}: a new key, readable by you alone; its public part has the keyid {key.thumbprint}",
        f'in the defs: hosts: {{"*": {{sign: {{key: "%{{file.{file.absolute()}}}", agent: "https://bot.example"}}}}}}',
        f"then serve `crawl-console sign --directory` as https://bot.example{_DIRECTORY_PATH}",
    )
    return 0


def _print_directory(definitions: "Definitions", agent: str | None, days: int, *, as_json: bool) -> int:
    import orjson

    from crawl_engine.http.signing.message import sign_directory

    chosen, keys = _keys_of_agent(definitions, agent)
    body = orjson.dumps({"keys": [key.jwk() for key in keys]}).decode()
    signed = [sign_directory(key, chosen, days * _DAY, f"binding{number}") for number, key in enumerate(keys)]
    headers = {
        "Content-Type": _DIRECTORY_TYPE,
        "Cache-Control": f"max-age={_DAY}",
        **{name: ", ".join(one[name] for one in signed) for name in signed[0]},
    }
    if as_json:
        write_json({"url": f"{chosen.rstrip('/')}{_DIRECTORY_PATH}", "headers": headers, "body": body})
    else:
        write_lines(*(f"{name}: {value}" for name, value in headers.items()), "", body)
    return 0


def _keys_of_agent(definitions: "Definitions", agent: str | None) -> "tuple[str, list[SigningKey]]":
    """The agent of the defs, and its keys."""
    rules = [rule.sign for rule in definitions.hosts if rule.sign is not None]
    agents = list(dict.fromkeys(rule.agent.rstrip("/") for rule in rules))
    if not rules:
        raise UsageError("no host of the defs has `sign`", 'Write hosts: {"*": {sign: {key: …, agent: …}}}.')
    if agent is None and len(agents) > 1:
        raise UsageError(f"several agents: {', '.join(agents)}", "Name one with --agent.")
    chosen = agents[0] if agent is None else agent.rstrip("/")
    if chosen not in agents:
        raise UsageError(f"--agent {chosen}: not in the defs, which have {', '.join(agents)}", "Name one of them.")
    keys = {key.thumbprint: key for rule in rules if rule.agent.rstrip("/") == chosen for key in [_read_key(rule)]}
    return chosen, list(keys.values())


def _read_key(rule: "SignRule") -> "SigningKey":
    from crawl_engine.runtime.signing_key import UnusableKey, parse_key, read_text

    try:
        return parse_key(rule.key, read_text(rule.key))
    except UnusableKey as error:
        raise UsageError(f"the key of `sign` cannot be used: {error}", "Mend its file, or name another one.") from None


def _try(url: str, definitions: "Definitions", settings: "Settings", *, as_json: bool) -> int:
    from crawl_engine import urls
    from crawl_engine.http.signing.clock_skew import describe_clock
    from crawl_engine.preview.visit import fetch_page

    normalized = urls.normalize(url)
    if normalized is None:
        raise UsageError(f"{urls.without_credentials(url)}: not an http or https URL", "Write the full URL: https://…")
    rule = definitions.host_rule(urls.host_key(normalized))
    if rule is None or rule.sign is None:
        raise UsageError(f"{urls.without_credentials(url)}: no rule of `hosts` signs its requests", "Add `sign` to it.")
    key = _read_key(rule.sign)
    always = [h if h.sign is None else replace(h, sign=replace(h.sign, when="always")) for h in definitions.hosts]
    page = fetch_page(url, replace(definitions, hosts=tuple(always)), settings)
    is_taken = not page.refusal and page.status < _BAD
    clock = describe_clock(dict(page.headers))
    result: dict[str, Any] = {
        "url": page.url, "status": page.status, "taken": is_taken, "refusal": page.refusal or None,
        "keyid": key.thumbprint, "agent": rule.sign.agent,
        "directory": _check_directory(rule.sign, key, definitions, settings),
    }  # fmt: skip
    if as_json:
        write_json(result)
    else:
        write_lines(
            "; ".join(filter(None, [f"{page.url}: HTTP {page.status}", page.refusal, clock])),
            f"signed for {rule.sign.agent} by the key {key.thumbprint}",
            f"{rule.sign.agent.rstrip('/')}{_DIRECTORY_PATH}: {result['directory']}",
        )
    return 0 if is_taken else 1


def _check_directory(rule: "SignRule", key: "SigningKey", definitions: "Definitions", settings: "Settings") -> str:
    """What the public directory of the agent says of the key."""
    import orjson

    from crawl_engine.preview.visit import fetch_page

    try:
        page = fetch_page(f"{rule.agent.rstrip('/')}{_DIRECTORY_PATH}", definitions, settings)
    except CrawlError as error:
        return f"cannot be read: {error.message}"
    if page.status != 200:
        return f"HTTP {page.status}"
    try:
        listed = [entry.get("x") for entry in orjson.loads(page.body)["keys"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        return "is no list of keys"
    return "has this key" if key.public in listed else "does not have this key"
