"""Sessions of a user, by the packages managesieve and sievelib, for tests/it/managesieve.rs.
Usage: managesieve_session.py PORT USER PASSWORD TOKEN SCRIPT...

Most steps read back what they changed. The last line is printed only if every step succeeded.
The certificate of the server is found by SSL_CERT_FILE.
"""

import pathlib
import sys

import managesieve
from sievelib.managesieve import Client

PORT, USER, PASSWORD, TOKEN = sys.argv[1:5]
SCRIPTS = [pathlib.Path(name) for name in sys.argv[5:]]


def step(text):
    print(text, flush=True)


def expect(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def with_managesieve():
    step("managesieve logs in over TLS")
    plain = managesieve.MANAGESIEVE("localhost", int(PORT), timeout=60)
    expect((plain.loginmechs, plain.supports_tls), ([], 1))
    plain.logout()
    client = managesieve.MANAGESIEVE("localhost", int(PORT), use_tls=True, timeout=60)
    assert client.implementation.startswith("Restante "), client.implementation
    assert "fileinto" in client.capabilities and "vacation" in client.capabilities
    expect(client.login("", USER, "wrong"), "NO")
    expect(client.login("", USER, PASSWORD), "OK")

    step("it stores scripts and gets them back byte for byte")
    expect(client.listscripts(), ("OK", []))
    for file in SCRIPTS:
        text = file.read_bytes().decode("utf-8")
        expect(client.havespace(file.stem, len(text)), "OK")
        result = client.putscript(file.stem, text)
        expect((result, client.response_code, client.response_text), ("OK", None, None))
        expect(client.getscript(file.stem), ("OK", text))
    names = sorted(file.stem for file in SCRIPTS)
    typ, listed = client.listscripts()
    expect((typ, sorted(listed)), ("OK", [(name, False) for name in names]))

    step("it is told what is wrong with a script")
    name = names[0]
    before = client.getscript(name)
    expect(client.putscript(name, "keep;\r\nkeeep;\r\nfileinto \"x\";\r\n"), "NO")
    lines = client.response_text.splitlines()
    assert len(lines) == 2 and lines[0].startswith("line 2, column 1: "), lines
    expect(client.getscript(name), before)

    step("it activates, deactivates and deletes scripts")
    expect(client.setactive(name), "OK")
    expect([listed for listed in client.listscripts()[1] if listed[1]], [(name, True)])
    expect((client.deletescript(name), client.response_code), ("NO", "ACTIVE"))
    expect(client.setactive(""), "OK")
    for name in names:
        expect(client.deletescript(name), "OK")
    expect((client.getscript(name)[0], client.response_code), ("NO", "NONEXISTENT"))
    expect(client.unauthenticate(), "OK")
    expect(client.login("", USER, PASSWORD), "OK")
    expect(client.logout(), "OK")


def with_sievelib():
    for mechanism, secret in [("PLAIN", PASSWORD), ("LOGIN", PASSWORD), ("OAUTHBEARER", TOKEN)]:
        step(f"sievelib logs in by {mechanism}")
        client = Client("localhost", int(PORT))
        assert client.connect(USER, secret, starttls=True, authmech=mechanism), client.errmsg
        assert mechanism in client.get_sasl_mechanisms()
        client.logout()
    client = Client("localhost", int(PORT))
    assert not client.connect(USER, "wrong", starttls=True, authmech="PLAIN")

    step("it stores, checks, renames and activates a script")
    client = Client("localhost", int(PORT))
    assert client.connect(USER, PASSWORD, starttls=True, authmech="PLAIN"), client.errmsg
    assert client.havespace("büro", 100)
    script = "require [\"fileinto\"];\n# grüße\nfileinto \"Junk\";"
    assert client.putscript("büro", script), client.errmsg
    expect(client.getscript("büro"), script)
    assert client.checkscript("keep;"), client.errmsg
    assert not client.checkscript("keeep;")
    assert client.errmsg.startswith(b"line 1, column 1: "), client.errmsg
    assert client.renamescript("büro", "main")
    assert not client.renamescript("büro", "other")
    expect(client.errcode, b"NONEXISTENT")
    assert client.setactive("main")
    expect(client.listscripts(), ("main", []))
    assert not client.deletescript("main")
    expect(client.errcode, b"ACTIVE")
    assert client.putscript("second", "stop;")
    expect(client.listscripts(), ("main", ["second"]))
    assert client.deletescript("second")
    client.logout()


with_managesieve()
with_sievelib()
print("all is well")
