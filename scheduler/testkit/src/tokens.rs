//! The tokens of a line: `kind name key=value flag list a b c`.

use std::time::Duration;

use schedlab_scheduler_core::resources::Amount;

/// The words of one line that are not consumed yet.
pub(super) struct LineTokens<'a> {
    line: &'a str,
    tokens: Vec<&'a str>,
}

impl<'a> LineTokens<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self { line, tokens: line.split_whitespace().collect() }
    }

    pub(super) fn take_first(&mut self) -> &'a str {
        assert!(!self.tokens.is_empty(), "a word is missing in: {}", self.line);
        self.tokens.remove(0)
    }

    pub(super) fn take_value(&mut self, key: &str) -> Option<&'a str> {
        let value = |word: &&'a str| word.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        let at = self.tokens.iter().position(|word| value(word).is_some())?;
        value(&self.tokens.remove(at))
    }

    pub(super) fn take_number(&mut self, key: &str) -> Option<i64> {
        self.take_value(key).map(|value| value.parse().expect("a number"))
    }

    pub(super) fn take_count(&mut self, key: &str) -> Option<u32> {
        self.take_value(key).map(|value| value.parse().expect("a count"))
    }

    /// Takes the value of `key=…` in thousandths: `1.5` is 1500.
    pub(super) fn take_milli(&mut self, key: &str) -> Option<i64> {
        self.take_value(key).map(parse_milli)
    }

    /// Takes the value of `key=…` in thousandths; `-1` means no bound.
    pub(super) fn take_amount(&mut self, key: &str) -> Option<Amount> {
        self.take_value(key).map(|value| match value {
            "-1" => Amount::Unlimited,
            value => Amount::Exactly(parse_milli(value)),
        })
    }

    pub(super) fn take_bytes(&mut self, key: &str) -> Option<i64> {
        self.take_value(key).map(parse_bytes)
    }

    /// Takes a duration, such as `90s` or `5m`.
    pub(super) fn take_duration(&mut self, key: &str) -> Option<Duration> {
        self.take_value(key).map(|value| {
            let (number, unit) = value.split_at(value.len() - 1);
            let number: u64 = number.parse().expect("a duration");
            match unit {
                "s" => Duration::from_secs(number),
                "m" => Duration::from_mins(number),
                _ => panic!("got {value}, expected a duration such as 90s or 5m"),
            }
        })
    }

    pub(super) fn take_flag(&mut self, flag: &str) -> bool {
        let at = self.tokens.iter().position(|word| *word == flag);
        at.map(|at| self.tokens.remove(at)).is_some()
    }

    /// Takes the word after each occurrence of `keyword`.
    pub(super) fn take_each(&mut self, keyword: &str) -> Vec<&'a str> {
        let mut found = Vec::new();
        while let Some(at) = self.tokens.iter().position(|word| *word == keyword) {
            self.tokens.remove(at);
            assert!(at < self.tokens.len(), "a word is missing after {keyword}: {}", self.line);
            found.push(self.tokens.remove(at));
        }
        found
    }

    /// Takes all words after `keyword`, up to the end of the line.
    pub(super) fn take_rest(&mut self, keyword: &str) -> Vec<&'a str> {
        match self.tokens.iter().position(|word| *word == keyword) {
            Some(at) => self.tokens.split_off(at).split_off(1),
            None => Vec::new(),
        }
    }

    pub(super) fn expect_end(self) {
        assert!(self.tokens.is_empty(), "unknown words {:?} in: {}", self.tokens, self.line);
    }
}

fn parse_milli(value: &str) -> i64 {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let fraction = format!("{fraction:0<3}");
    let whole: i64 = whole.parse().expect("a number");
    whole * 1000 + fraction.parse::<i64>().expect("a number")
}

fn parse_bytes(value: &str) -> i64 {
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

/// Splits `key=value`.
pub(super) fn split_key_value(word: &str) -> (&str, &str) {
    word.split_once('=').unwrap_or((word, ""))
}
