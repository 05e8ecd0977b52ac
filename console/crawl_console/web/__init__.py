"""The web server of crawls: a client of data dirs, as the console is. Nothing of a crawl imports it.

    server.py      sockets, signals, slow clients; `run` starts all of it
    app.py         ROUTES, and the application made of them: a page is one line there
    root_path.py   below which path of a proxy its addresses are
    access.py      who may ask what: Host, token, cookie, Origin, size of bodies; headers of each answer
    token_file.py  the file with the token
    watch.py       `Watch`: one data dir, read once a second at most; `CrawlView`: what was read; `Crawls`: all of them
    feed.py        `/events`: what changed, to all who listen
    api.py         `/health`, `/status.json`, `/login`
    metrics.py     `/metrics`
    given.py       orders of browsers: each form counts once, and a page says what came of it
    control.py     `POST /commands/NAME`, with `--control`
    render.py      fills templates, cleans and escapes values
    pages/         the pages of crawls, and their forms
    templates/, static/   pages, the stylesheet, the script

A route is an async function of a `Request`. `crawls_of(request)` gives the `Crawls`; `.find(request)` the `Watch` that
`?data=NAME` names; `await watch.current()` its newest `CrawlView`. A view has `poll` (the `PollResult` on which the
console's own functions work), `status` (the object of `status --json`) and `line` (that of `status --all --json`).
Further reads go through `await watch.ask(lambda source: source.…)`, on the thread of that data dir.
`render(request, "page.html", …)` fills a template; the policy allows no inline script and no inline style.
"""
