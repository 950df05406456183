"""Stores scripts as a client does, by the package managesieve, for tests/it/sieve_clients.rs.
Usage: managesieve_store.py PORT USER PASSWORD SCRIPT...

Each script is stored under the name of its file, listed, read back and made the active one. The
last line is printed only if every script came back byte for byte. The certificate of the server is
found by SSL_CERT_FILE.
"""

import pathlib
import sys

import managesieve

PORT, USER, PASSWORD = sys.argv[1:4]


def expect(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


client = managesieve.MANAGESIEVE("localhost", int(PORT), use_tls=True, timeout=60)
expect(client.login("", USER, PASSWORD), "OK")
for file in map(pathlib.Path, sys.argv[4:]):
    text = file.read_bytes().decode("utf-8")
    expect((client.putscript(file.stem, text), client.response_text), ("OK", None))
    expect(client.setactive(file.stem), "OK")
    assert (file.stem, True) in client.listscripts()[1]
    expect(client.getscript(file.stem), ("OK", text))
client.logout()
print("all is well")
