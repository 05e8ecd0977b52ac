"""The pages of a crawl, made here whole: the script only fetches them again.

frame.py    what all pages of a crawl begin with: its run, its progress, its health
grids.py    tables of `crawl_console.words` as a template draws them; the links of pages and filters
charts.py   series as SVG
views.py    the pages
events.py   lines of the log, folded; the search for them
log.py      the page of the log
failed.py   the page of failures
forms.py    orders by forms: what is asked first, and what was answered
"""
