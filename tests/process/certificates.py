"""Certificates of an authority made for the tests, as PEM files and as contexts of servers."""

import ssl
from pathlib import Path

import trustme


class Authority:
    """An authority, and the files it writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority = trustme.CA()
        self.path = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.path))

    def server_context(self, *names: str, http2: bool = False, asks_client: bool = False) -> ssl.SSLContext:
        """Of a server with a certificate for these names; default: 127.0.0.1 and localhost."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert(*(names or ("127.0.0.1", "localhost"))).configure_cert(context)
        context.set_alpn_protocols(["h2", "http/1.1"] if http2 else ["http/1.1"])
        if asks_client:
            self._authority.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def write_client(self, name: str = "client.pem") -> Path:
        """A file with a client's certificate and its key."""
        path = self.folder / name
        self._authority.issue_cert("client@shop.example").private_key_and_cert_chain_pem.write_to_path(str(path))
        return path
