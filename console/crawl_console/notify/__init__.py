"""Messages about a run to the receivers of the setting `notify`; a child process sends them."""
