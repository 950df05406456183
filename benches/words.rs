//! Generates messages of English words, so that search and compression cost what they cost for
//! real mail.

const WORDS: &str = "\
    the of and to in that is was for it with as his on be at by had not are but from or have an \
    they which one you were her all she there would their we him been has when who will more no \
    if out so said what up its about into than them can only other new some could time these two \
    may then do first any my now such like our over man me even most made after also did many \
    before must through back years where much your way well down should because each just those \
    people how too little state good very make world still own see men work long get here \
    between both life being under never day same another know while last might us great old year \
    off come since against go came right used take three states himself few house use during \
    without again place american around however home small found mrs thought went say part once \
    general high upon school every letter harbour bridge winter garden river market station \
    window morning evening journey account delivery postmaster envelope stamp parcel office \
    counter railway platform mountain village church castle kitchen supper bread butter coffee \
    music concert theatre ticket library chapter author reader paper pencil meeting agenda \
    minutes budget quarter report figure table invoice payment contract clause signature \
    customer supplier server network storage kernel process thread memory latency commit journal \
    index query result release version patch review branch merge failure recovery backup restore \
    schedule holiday absence return monday tuesday friday weather rain snow storm cloud sunshine \
    spring summer autumn field forest animal horse sheep bird apple orange cherry lemon kindly \
    regards sincerely yours thanks question answer proposal decision reason example number \
    amount measure length weight";

/// A random stream of words in which, as in a language, the first words of the list are frequent
/// and the last ones rare.
#[derive(Debug)]
pub(crate) struct Words {
    list: Vec<&'static str>,
    dice: u64,
}

impl Words {
    pub(crate) fn new(seed: u64) -> Self {
        let list = WORDS.split_whitespace().collect();
        Self { list, dice: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Returns the next number of 53 bits (xorshift, whose state must not be 0).
    fn roll(&mut self) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice >> 11
    }

    fn word(&mut self) -> &'static str {
        // The smallest of three random numbers, so that the frequency falls with the rank.
        let sides = self.list.len() as u64;
        let at = (0..3).map(|_| self.roll() % sides).min().unwrap_or(0);
        usize::try_from(at).ok().and_then(|at| self.list.get(at)).copied().unwrap_or("the")
    }

    /// Returns a message of about `size` bytes. `number` makes it unique. Its lines end in CRLF
    /// and none begins with a dot, so it can follow DATA as it is.
    pub(crate) fn message(&mut self, number: u64, to: &str, size: usize) -> Vec<u8> {
        let subject = format!("{} {} {} {number}", self.word(), self.word(), self.word());
        let mut text = format!(
            "Received: from client.example (client.example [192.0.2.7])\r\n\
             \tby mx.example (Postfix) with ESMTPS id {number:012X};\r\n\
             \tSat, 21 Nov 2026 09:00:00 +0000\r\nDate: Sat, 21 Nov 2026 09:00:00 +0000\r\n\
             From: A Sender <sender@example.net>\r\nTo: {to}\r\nSubject: {subject}\r\n\
             Message-ID: <{number}.{:x}@example.net>\r\nMIME-Version: 1.0\r\n\
             Content-Type: text/plain; charset=utf-8\r\n\r\n",
            self.roll()
        );
        let mut column = 0;
        while text.len() + 2 < size {
            // Some words hardly ever occur twice, like the numbers and names of real mail.
            let rare = self.roll().is_multiple_of(24);
            let word = if rare {
                format!("{:x}", self.roll() & 0xff_ffff)
            } else {
                self.word().to_owned()
            };
            if column + word.len() > 70 {
                text.push_str("\r\n");
                column = 0;
            }
            text.push_str(&word);
            text.push(' ');
            column += word.len() + 1;
        }
        text.push_str("\r\n");
        text.into_bytes()
    }
}
