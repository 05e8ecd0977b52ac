"""The content types of bodies that the crawler encodes itself."""

FORM_TYPE = "application/x-www-form-urlencoded"
JSON_TYPE = "application/json"
