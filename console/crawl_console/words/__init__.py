"""How consoles tell a crawl: words, marks and roles. The terminal and the web draw the same.

A span is a text and its role. A table is a list of columns, and a function that gives its rows.
"""
