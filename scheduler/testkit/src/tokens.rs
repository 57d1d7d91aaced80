//! The tokens of a line: `kind name key=value flag list a b c`.

use std::time::Duration;

use schedlab_scheduler_core::resources::Amount;

/// The tokens of one line that are not consumed yet.
pub(super) struct Tokens<'a> {
    line: &'a str,
    tokens: Vec<&'a str>,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self { line, tokens: line.split_whitespace().collect() }
    }

    pub(super) fn first(&mut self) -> &'a str {
        assert!(!self.tokens.is_empty(), "a word is missing in: {}", self.line);
        self.tokens.remove(0)
    }

    pub(super) fn value(&mut self, key: &str) -> Option<&'a str> {
        let value = |word: &&'a str| word.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        let at = self.tokens.iter().position(|word| value(word).is_some())?;
        value(&self.tokens.remove(at))
    }

    pub(super) fn number(&mut self, key: &str) -> Option<i64> {
        self.value(key).map(|value| value.parse().expect("a number"))
    }

    pub(super) fn count(&mut self, key: &str) -> Option<u32> {
        self.value(key).map(|value| value.parse().expect("a count"))
    }

    /// Thousandths: `1.5` is 1500.
    pub(super) fn milli(&mut self, key: &str) -> Option<i64> {
        self.value(key).map(milli)
    }

    /// Thousandths, or no bound for `-1`.
    pub(super) fn amount(&mut self, key: &str) -> Option<Amount> {
        self.value(key).map(|value| match value {
            "-1" => Amount::Unlimited,
            value => Amount::Exactly(milli(value)),
        })
    }

    pub(super) fn bytes(&mut self, key: &str) -> Option<i64> {
        self.value(key).map(bytes)
    }

    /// `90s`, or `5m`.
    pub(super) fn duration(&mut self, key: &str) -> Option<Duration> {
        self.value(key).map(|value| {
            let (number, unit) = value.split_at(value.len() - 1);
            let number: u64 = number.parse().expect("a duration");
            match unit {
                "s" => Duration::from_secs(number),
                "m" => Duration::from_mins(number),
                _ => panic!("got {value}, expected a duration such as 90s or 5m"),
            }
        })
    }

    pub(super) fn flag(&mut self, flag: &str) -> bool {
        let at = self.tokens.iter().position(|word| *word == flag);
        at.map(|at| self.tokens.remove(at)).is_some()
    }

    /// The token after each `keyword`.
    pub(super) fn each(&mut self, keyword: &str) -> Vec<&'a str> {
        let mut found = Vec::new();
        while let Some(at) = self.tokens.iter().position(|word| *word == keyword) {
            self.tokens.remove(at);
            assert!(at < self.tokens.len(), "a word is missing after {keyword}: {}", self.line);
            found.push(self.tokens.remove(at));
        }
        found
    }

    /// All tokens after `keyword`, up to the end of the line.
    pub(super) fn rest(&mut self, keyword: &str) -> Vec<&'a str> {
        match self.tokens.iter().position(|word| *word == keyword) {
            Some(at) => self.tokens.split_off(at).split_off(1),
            None => Vec::new(),
        }
    }

    pub(super) fn expect_end(self) {
        assert!(self.tokens.is_empty(), "unknown words {:?} in: {}", self.tokens, self.line);
    }
}

fn milli(value: &str) -> i64 {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let fraction = format!("{fraction:0<3}");
    let whole: i64 = whole.parse().expect("a number");
    whole * 1000 + fraction.parse::<i64>().expect("a number")
}

fn bytes(value: &str) -> i64 {
    let number = value.trim_end_matches(char::is_alphabetic);
    let unit = match value.trim_start_matches(number) {
        "" => 1,
        "G" => 1_000_000_000,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        unit => panic!("got unit {unit}, expected G, Mi, Gi or Ti"),
    };
    number.parse::<i64>().expect("a number") * unit
}

/// `key=value`.
pub(super) fn pair(word: &str) -> (&str, &str) {
    word.split_once('=').unwrap_or((word, ""))
}
