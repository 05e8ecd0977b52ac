"""All the SQL. What is asked stands here; what to make of the answers is decided above. Knows no Huey, HTTP or HTML."""
