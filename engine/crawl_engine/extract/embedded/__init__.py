"""Documents inside a page: texts of it that are read as HTML, JSON, scripts, XML or CSV."""
