"""A session of a user, by jmapc, for tests/it/clients.rs.
Usage: jmapc_session.py HOST:PORT USER OTHER PASSWORD

OTHER is another user with the same password. USER's Inbox has three emails from OTHER: lunch,
minutes and party.
Most steps read back what they changed. The last line is printed only if every step succeeded.
"""

import pathlib
import sys
import tempfile
import threading
import time

import jmapc
from jmapc import Client, Comparator, Email, EmailAddress, EmailBodyPart, EmailBodyValue, EmailSubmission
from jmapc import EmailQueryFilterCondition, MailboxQueryFilterCondition, Ref
from jmapc.methods import (
    CoreEcho,
    CustomMethod,
    EmailChanges,
    EmailGet,
    EmailQuery,
    EmailQueryChanges,
    EmailSet,
    EmailSubmissionGet,
    EmailSubmissionSet,
    IdentityGet,
    MailboxChanges,
    MailboxGet,
    MailboxQuery,
    MailboxSet,
    SearchSnippetGet,
    ThreadGet,
)
from jmapc.models import Mailbox

HOST, USER, OTHER, PASSWORD = sys.argv[1:]


def step(text):
    print(text, flush=True)


def ask(client, method):
    try:
        return client.request(method, raise_errors=True)
    except jmapc.ClientError as error:
        raise RuntimeError(error.result) from error


def eventually(what, test):
    until = time.monotonic() + 60
    while not test():
        if time.monotonic() > until:
            raise TimeoutError(what)
        time.sleep(0.2)


def custom(client, name, data):
    method = CustomMethod(data={"accountId": client.account_id, **data})
    method.jmap_method = name
    method.__class__.using = {"urn:ietf:params:jmap:vacationresponse"}
    return ask(client, method).data


def mailboxes(client):
    found = ask(client, MailboxGet(ids=None)).data
    return {box.role: box for box in found if box.role}


client = Client.create_with_password(HOST, USER, PASSWORD)
other = Client.create_with_password(HOST, OTHER, PASSWORD)
assert client.jmap_session.username == USER, client.jmap_session
step(f"logged in as {client.jmap_session.username}, account {client.account_id}")

assert ask(client, CoreEcho(data={"hello": "world"})).data == {"hello": "world"}

boxes = mailboxes(client)
assert boxes["inbox"].total_emails == 3, boxes["inbox"]
by_role = ask(client, MailboxQuery(filter=MailboxQueryFilterCondition(role="inbox")))
assert by_role.ids == [boxes["inbox"].id]
step(f"mailboxes: {sorted(boxes)}")

# Listed, newest first, in one request.
listed = ask(
    client,
    [
        EmailQuery(
            filter=EmailQueryFilterCondition(in_mailbox=boxes["inbox"].id),
            sort=[Comparator(property="receivedAt", is_ascending=False)],
            collapse_threads=True,
            limit=50,
        ),
        EmailGet(ids=Ref("/ids"), properties=["threadId"]),
        ThreadGet(ids=Ref("/list/*/threadId")),
        EmailGet(ids=Ref("/list/*/emailIds"), properties=["subject", "from", "keywords", "mailboxIds", "preview"]),
    ],
)
emails = {email.subject: email for email in listed[-1].response.data}
assert sorted(emails) == ["lunch", "minutes", "party"], emails
assert emails["lunch"].preview.strip() == "At noon?", emails["lunch"]
assert emails["lunch"].mail_from[0].email == OTHER, emails["lunch"]
step(f"listed: {sorted(emails)}")

# Searched.
condition = EmailQueryFilterCondition(text="zyzzyva")
found = ask(client, EmailQuery(filter=condition))
assert found.ids == [emails["minutes"].id], found
snippet = ask(client, SearchSnippetGet(ids=found.ids, filter=condition)).data[0]
assert "<mark>zyzzyva</mark>" in snippet.preview, snippet
step(f"searched: {snippet.preview.strip()}")

# Push: changes are reported, whoever made them.
pushed = []


def listen():
    for event in client.events:
        pushed.append(event.data.changed[client.account_id])


threading.Thread(target=listen, daemon=True).start()
# The stream must be open before the first change.
time.sleep(1)

# Flags and moves.
before = ask(client, EmailGet(ids=[])).state
boxes_before = ask(client, MailboxGet(ids=[])).state
query_before = ask(client, EmailQuery(filter=EmailQueryFilterCondition(in_mailbox=boxes["inbox"].id)))
lunch = emails["lunch"].id
ask(client, EmailSet(update={lunch: {"keywords/$seen": True, "keywords/work": True}}))
ask(client, EmailSet(update={lunch: {"mailboxIds": {boxes["archive"].id: True}}}))
moved = ask(client, EmailGet(ids=[lunch], properties=["keywords", "mailboxIds"])).data[0]
assert moved.keywords == {"$seen": True, "work": True} and moved.mailbox_ids == {boxes["archive"].id: True}, moved
assert ask(client, EmailChanges(since_state=before)).updated == [lunch]
assert set(ask(client, MailboxChanges(since_state=boxes_before)).updated) == {boxes["inbox"].id, boxes["archive"].id}
gone = ask(
    client,
    EmailQueryChanges(
        since_query_state=query_before.query_state,
        filter=EmailQueryFilterCondition(in_mailbox=boxes["inbox"].id),
    ),
)
assert lunch in gone.removed and not gone.added, gone
step("an email got keywords and was moved")

# A mailbox is created and renamed.
made = ask(client, MailboxSet(create={"new": Mailbox(name="Projekte 2027", parent_id=boxes["archive"].id)}))
project = made.created["new"].id
ask(client, EmailSet(update={lunch: {f"mailboxIds/{project}": True}}))
ask(client, MailboxSet(update={project: {"name": "Projects"}}))
named = ask(client, MailboxGet(ids=[project])).data[0]
assert (named.name, named.total_emails) == ("Projects", 1), named
step("a mailbox is made and renamed")

# An attachment is uploaded, a draft is created with it and sent. The draft becomes the sent email.
identity = next(one for one in ask(client, IdentityGet()).data if one.email == USER)
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "Grüße.txt").write_bytes("Grüße aus Rom\r\n".encode() * 1000)
blob = client.upload_blob(folder / "Grüße.txt")
draft = Email(
    mail_from=[EmailAddress(name="Ann Lee", email=USER)],
    to=[EmailAddress(name="Bob", email=OTHER)],
    subject="Grüße aus Rom",
    keywords={"$draft": True, "$seen": True},
    mailbox_ids={boxes["drafts"].id: True},
    body_values={"text": EmailBodyValue(value="Es ist schön hier.\n")},
    text_body=[EmailBodyPart(part_id="text", type="text/plain")],
    attachments=[
        EmailBodyPart(blob_id=blob.id, type="text/plain", name="Grüße.txt", disposition="attachment", charset="utf-8")
    ],
)
results = ask(
    client,
    [
        EmailSet(create={"draft": draft}),
        EmailSubmissionSet(
            create={"send": EmailSubmission(email_id="#draft", identity_id=identity.id)},
            on_success_update_email={
                "#send": {
                    "keywords/$draft": None,
                    f"mailboxIds/{boxes['drafts'].id}": None,
                    f"mailboxIds/{boxes['sent'].id}": True,
                }
            },
        ),
    ],
)
sent = results[0].response.created["draft"].id
submission = results[1].response.created["send"].id
assert results[2].response.updated == {sent: None}, results
after = ask(client, EmailGet(ids=[sent], properties=["keywords", "mailboxIds"])).data[0]
assert after.keywords == {"$seen": True} and after.mailbox_ids == {boxes["sent"].id: True}, after
step("a draft is written, sent, and filed in Sent")

# The message goes through Postfix, and the other user sees it arrive.
inbox = EmailQueryFilterCondition(in_mailbox=mailboxes(other)["inbox"].id)
eventually("the mail arrives", lambda: len(ask(other, EmailQuery(filter=inbox)).ids) == 1)
arrived = ask(
    other,
    EmailGet(
        ids=ask(other, EmailQuery(filter=inbox)).ids,
        properties=["subject", "from", "to", "textBody", "attachments", "bodyValues", "hasAttachment"],
        fetch_text_body_values=True,
    ),
).data[0]
assert arrived.subject == "Grüße aus Rom" and arrived.has_attachment, arrived
assert arrived.mail_from[0].name == "Ann Lee" and arrived.to[0].email == OTHER, arrived
assert arrived.body_values[arrived.text_body[0].part_id].value == "Es ist schön hier.\n", arrived
assert arrived.attachments[0].name == "Grüße.txt", arrived
other.download_attachment(arrived.attachments[0], folder / "back")
assert (folder / "back").read_bytes() == (folder / "Grüße.txt").read_bytes()
status = ask(client, EmailSubmissionGet(ids=[submission])).data[0]
assert status.undo_status == jmapc.models.UndoStatus.FINAL, status
assert list(status.delivery_status) == [OTHER], status
step(f"it arrived: {status.delivery_status[OTHER].smtp_reply}")

# The vacation response is set.
custom(client, "VacationResponse/set", {"update": {"singleton": {"isEnabled": True, "textBody": "In Rome."}}})
response = custom(client, "VacationResponse/get", {"ids": None})["list"][0]
assert response["isEnabled"] and response["textBody"] == "In Rome.", response
step("the vacation is set")

# The changes were pushed.
eventually(
    "an event",
    lambda: any(change.email for change in pushed) and any(change.mailbox for change in pushed),
)
step(f"{len(pushed)} changes were pushed")

# The email and the mailbox are destroyed.
ask(client, EmailSet(destroy=[lunch]))
assert ask(client, EmailGet(ids=[lunch])).not_found == [lunch]
ask(client, MailboxSet(destroy=[project]))
step("all is well")
