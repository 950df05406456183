//! Tests by which parts of a message a search finds it, before and after folding.

use super::*;

/// Files the messages, and checks the searches before and after folding. Each search names the
/// indexes of the messages to find.
fn assert_found(raws: &[&str], searches: &[(Filter, &[usize])]) {
    let fixture = Fixture::new();
    let ids: Vec<EmailId> =
        raws.iter().zip(0..).map(|(raw, at)| fixture.file(raw.as_bytes(), at)).collect();
    let sizes = FoldSizes {
        rows: 1,
        row_bytes: 100,
        block: 300,
        fan: 2,
        piece: 500,
        ..FoldSizes::default()
    };
    for folded in [false, true] {
        while folded && fixture.fold_step(&sizes).unwrap() {}
        fixture.assert_sound();
        for (filter, expected) in searches {
            let expected: BTreeSet<EmailId> = expected.iter().map(|at| ids[*at]).collect();
            let found: BTreeSet<EmailId> =
                fixture.search(filter.clone(), None).into_iter().collect();
            assert_eq!(found, expected, "folded {folded}: {filter:?}");
        }
    }
    assert_eq!(fixture.store.snapshot().account_state(ACCOUNT).unwrap().unfolded, 0);
}

fn utf8(body: &str, kind: &str) -> String {
    format!("MIME-Version: 1.0\r\nContent-Type: text/{kind}; charset=utf-8\r\n\r\n{body}\r\n")
}

#[test]
fn scripts_without_spaces_and_hangul_are_found_by_any_part_of_a_run() {
    let bodies = [
        "我明天去北京开会。请准时",
        "東京都に住んでいます。ｶﾀｶﾅ、ひらがな",
        "สวัสดีชาวโลก วันนี้อากาศดี",
        "한국어를 배웁니다. 내일 만나요",
        "京北 都東 plain words 國",
    ];
    let raws: Vec<String> = bodies.iter().map(|body| utf8(body, "plain")).collect();
    let searches: Vec<(Filter, &[usize])> = [
        ("北京", &[0][..]),
        ("北京开会", &[0]),
        ("会", &[0]),
        ("会请", &[]),
        ("天北", &[]),
        ("東京", &[1]),
        ("住んで", &[1]),
        ("カタカナ", &[1]),
        ("らがな", &[1]),
        ("ชาวโลก", &[2]),
        ("สวัสดี", &[2]),
        ("โลกชาว", &[]),
        ("อากาศ", &[2]),
        ("한국어", &[3]),
        ("국어", &[3]),
        ("배웁", &[3]),
        ("어국", &[]),
        ("京", &[0, 1, 4]),
        ("京北 words", &[4]),
    ]
    .into_iter()
    .map(|(text, expected)| (filter(text, tokens::BODY), expected))
    .collect();
    assert_found(&raws.iter().map(String::as_str).collect::<Vec<_>>(), &searches);
}

#[test]
fn html_is_searched_as_its_text() {
    let html = "<html><head><style>.hidden {color: red}</style></head><body><p class=\"frame\">\
                Gr&uuml;&szlig;e aus <b>K&ouml;ln</b></p><!-- secret -->\
                <p>Lunch&nbsp;at<br>noon</p><img src=cid:x alt='The cathedral' \
                title=\"by night\"></body></html>";
    let searches: Vec<(Filter, &[usize])> = [
        ("Grüße", &[0][..]),
        ("grusse", &[0]),
        ("'aus Köln'", &[0]),
        ("'lunch at noon'", &[0]),
        ("uuml", &[]),
        ("cathedral", &[0]),
        ("'by night' lunch", &[0]),
        ("cid", &[]),
        ("frame", &[]),
        ("secret", &[]),
    ]
    .into_iter()
    .map(|(text, expected)| (filter(text, tokens::BODY), expected))
    .collect();
    assert_found(&[&utf8(html, "html"), &utf8("nothing", "plain")], &searches);
}

#[test]
fn header_fields_are_found_by_name_and_by_id() {
    let long = format!("<{}@x>", "y".repeat(300));
    let raws = [
        "Message-ID: <A.1@x.example>\r\nList-Id: Team (us) <team.lists.example>\r\n\r\n1\r\n"
            .to_owned(),
        "Message-ID: <b@x.example>\r\nIn-Reply-To: <a.1@x.example>\r\nX-Loop: one two\r\n\r\n2\r\n"
            .to_owned(),
        format!(
            "Message-ID: {long}\r\nReferences: <b@x.example>\r\n\t<A.1@x.example>\r\n\r\n3\r\n"
        ),
    ];
    let header = |name: &str, text: Option<&str>| {
        Filter::Is(Condition::Header { name: name.into(), text: text.map(str::to_owned) })
    };
    let searches: [(Filter, &[usize]); 13] = [
        (header("message-id", Some("<a.1@x.example>")), &[0]),
        (header("Message-ID", Some("x.example>")), &[0, 1]),
        (header("In-Reply-To", Some("<A.1@x.example>")), &[1]),
        (header("references", Some("\"<b@x.example> <a.1@x.example>\"")), &[2]),
        (header("references", Some("\"<a.1@x.example> <b@x.example>\"")), &[]),
        (header("message-id", Some(&long)), &[2]),
        (header("List-ID", Some("<team.lists.example>")), &[0]),
        (header("List-ID", Some("lists")), &[0]),
        (header("List-ID", None), &[0]),
        (header("x-loop", None), &[1]),
        (header("X-Loop", Some("\"tw ne\"")), &[]),
        (header("X-Loop", Some("\"ne tw\"")), &[1]),
        (Filter::Not(vec![header("x-loop", None)]), &[0, 2]),
    ];
    assert_found(&raws.iter().map(String::as_str).collect::<Vec<_>>(), &searches);
}

#[test]
fn addresses_are_found_by_their_domain_and_attachments_by_name_and_type() {
    let with = |name: &str, kind: &str| {
        format!(
            "From: Ann <ann@mail.example.org>\r\nCc: bob@example.net\r\n\
             Content-Type: multipart/mixed; boundary=cut\r\n\r\n\
             --cut\r\n\r\ntext\r\n--cut\r\nContent-Type: {kind}\r\n\
             Content-Disposition: attachment; filename=\"{name}\"\r\n\r\nxyz\r\n--cut--\r\n"
        )
    };
    let raws = [
        with("Plan 2027.pdf", "application/pdf"),
        with("photo.png", "image/PNG"),
        "From: ann@example.org\r\nTo: x@notexample.org\r\n\r\nplan\r\n".to_owned(),
    ];
    let is = |condition| Filter::Is(condition);
    let searches: [(Filter, &[usize]); 12] = [
        (is(Condition::From("@example.org".into())), &[0, 1, 2]),
        (is(Condition::From("@mail.example.org".into())), &[0, 1]),
        (is(Condition::To("@example.org".into())), &[]),
        (is(Condition::Cc("@EXAMPLE.net".into())), &[0, 1]),
        (is(Condition::From("ann@example.org".into())), &[2]),
        (is(Condition::Text("@example.net ann".into())), &[0, 1]),
        (is(Condition::AttachmentName("plan".into())), &[0]),
        (is(Condition::AttachmentName("'2027 pdf'".into())), &[0]),
        (is(Condition::Text("plan".into())), &[0, 2]),
        (is(Condition::AttachmentType("image/png".into())), &[1]),
        (is(Condition::AttachmentType("image".into())), &[1]),
        (is(Condition::AttachmentType("application/p".into())), &[]),
    ];
    assert_found(&raws.iter().map(String::as_str).collect::<Vec<_>>(), &searches);
}
