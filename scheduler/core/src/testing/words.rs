//! The words of a line: `kind name key=value flag list a b c`.

use std::time::Duration;

use crate::resources::Amount;

/// The words of one line that nobody has asked for yet.
pub(super) struct Words<'a> {
    line: &'a str,
    words: Vec<&'a str>,
}

impl<'a> Words<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        Self { line, words: line.split_whitespace().collect() }
    }

    pub(super) fn first(&mut self) -> &'a str {
        assert!(!self.words.is_empty(), "a word is missing in: {}", self.line);
        self.words.remove(0)
    }

    pub(super) fn value(&mut self, key: &str) -> Option<&'a str> {
        let value = |word: &&'a str| word.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        let at = self.words.iter().position(|word| value(word).is_some())?;
        value(&self.words.remove(at))
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
                _ => panic!("a duration such as 90s or 5m, not {value}"),
            }
        })
    }

    pub(super) fn flag(&mut self, flag: &str) -> bool {
        let at = self.words.iter().position(|word| *word == flag);
        at.map(|at| self.words.remove(at)).is_some()
    }

    /// The word behind each `keyword`.
    pub(super) fn each(&mut self, keyword: &str) -> Vec<&'a str> {
        let mut found = Vec::new();
        while let Some(at) = self.words.iter().position(|word| *word == keyword) {
            self.words.remove(at);
            assert!(at < self.words.len(), "a word is missing behind {keyword}: {}", self.line);
            found.push(self.words.remove(at));
        }
        found
    }

    /// All words behind `keyword`, up to the end of the line.
    pub(super) fn rest(&mut self, keyword: &str) -> Vec<&'a str> {
        match self.words.iter().position(|word| *word == keyword) {
            Some(at) => self.words.split_off(at).split_off(1),
            None => Vec::new(),
        }
    }

    pub(super) fn end(self) {
        assert!(self.words.is_empty(), "what is {:?} in: {}", self.words, self.line);
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
        unit => panic!("G, Mi, Gi or Ti, not {unit}"),
    };
    number.parse::<i64>().expect("a number") * unit
}

/// `key=value`.
pub(super) fn pair(word: &str) -> (&str, &str) {
    word.split_once('=').unwrap_or((word, ""))
}
