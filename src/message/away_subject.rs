//! Recognises out-of-office replies by their subject, where nothing else marks them.
//!
//! A phrase counts only at the beginning of a subject, so that people can mention these words in
//! their subjects. A phrase of the mail program Notes counts anywhere in a subject that begins with
//! `AUTO:` in capitals.

use super::header::folded;

/// Phrases, in the form of [`folded`], that count before a colon (as Exchange and others write
/// them) or before ` Re: ` (as Gmail does).
const PHRASES: [&str; 67] = [
    "automatic reply",
    "automatische antwort",
    "réponse automatique",
    "respuesta automática",
    "risposta automatica",
    "automatisch antwoord",
    "resposta automática",
    "resposta automàtica",
    "automatiskt svar",
    "automatisk svar",
    "autosvar",
    "automaattinen vastaus",
    "odpowiedź automatyczna",
    "automatyczna odpowiedź",
    "automatická odpověď",
    "automatická odpoveď",
    "automatikus válasz",
    "răspuns automat",
    "samodejni odgovor",
    "automatski odgovor",
    "автоматический ответ",
    "автоответ",
    "автоматична відповідь",
    "автоматичен отговор",
    "αυτόματη απάντηση",
    "otomatik yanıt",
    "automaatvastus",
    "automātiskā atbilde",
    "automatinis atsakymas",
    "balasan otomatis",
    "trả lời tự động",
    "自動応答",
    "自動返信",
    "自动答复",
    "自动回复",
    "自動回覆",
    "자동 회신",
    "자동 응답",
    "رد تلقائي",
    "תשובה אוטומטית",
    "out of office",
    "out of the office",
    "out of office autoreply",
    "out of office reply",
    "auto reply",
    "auto-reply",
    "autoreply",
    "auto response",
    "auto-response",
    "autoresponse",
    "automatic response",
    "automated reply",
    "abwesenheitsnotiz",
    "abwesend",
    "abwesenheit",
    "absence du bureau",
    "absent du bureau",
    "absent(e) du bureau",
    "fuera de oficina",
    "fuera de la oficina",
    "fuori ufficio",
    "fuori sede",
    "niet aanwezig",
    "afwezig",
    "afwezigheidsbericht",
    "frånvaro",
    "poissa",
];

/// Phrases of Notes, which writes them after `AUTO: ` and a name.
const NOTES: [&str; 6] = [
    "is out of the office",
    "ist ausser haus",
    "est absent",
    "está fuera de la oficina",
    "è fuori ufficio",
    "is niet aanwezig",
];

/// Whether a decoded subject (RFC 2047) begins like that of an out-of-office reply. A `Re: ` before
/// the phrase is not skipped.
pub(super) fn is_away(subject: &str) -> bool {
    let subject = subject.trim_start();
    let folded = folded(subject);
    if subject.starts_with("AUTO:") && NOTES.iter().any(|words| folded.contains(words)) {
        return true;
    }
    // A full-width colon is an ASCII one in `folded`.
    let rest = PHRASES.iter().filter_map(|phrase| folded.strip_prefix(phrase));
    rest.into_iter().any(|rest| rest.trim_start().starts_with(':') || rest.starts_with(" re:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_stored_folded() {
        for phrase in PHRASES.iter().chain(&NOTES) {
            assert_eq!(folded(phrase), **phrase);
        }
    }

    #[test]
    fn away_phrase_counts_only_at_the_beginning() {
        for subject in [
            "Automatic reply: Lunch?",
            "AUTOMATIC REPLY:",
            "R\u{e9}ponse automatique\u{a0}: D\u{e9}jeuner",
            "Re\u{301}ponse automatique : x",
            "自动答复：午餐",
            "Abwesenheitsnotiz: Mittagessen",
            "Out of Office AutoReply: Lunch?",
            "Out of office Re: Lunch?",
            "AUTO: Bob Smith is out of the office (returning 12/24/2026)",
            "AUTO: Bob Schmidt ist außer Haus (Rückkehr am 24.12.2026)",
        ] {
            assert!(is_away(subject), "{subject}");
        }
        for subject in [
            "Re: Automatic reply: Lunch?",
            "Automatic reply settings: how?",
            "Automatic replying: a proposal",
            "Out of office party: who comes?",
            "Abwesenheitsnotizen: eine Frage",
            "AUTO: Angebot (Baujahr 2019)",
            "Auto: Bob is out of the office",
            "Lunch? (Automatic reply: away)",
            "",
        ] {
            assert!(!is_away(subject), "{subject}");
        }
    }
}
