"""The pages of a crawl, made here whole: the script only fetches them again.

frame.py    what all pages of a crawl begin with: its run, its progress, its health
grids.py    tables of `console.words` as a template draws them; the links of pages and filters
charts.py   series as SVG
views.py    the pages
forms.py    orders by forms: what is asked first, and what was answered
"""
